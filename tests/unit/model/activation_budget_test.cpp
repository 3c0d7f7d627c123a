#include "hone/model/memory/activation_budget.h"

#include <gtest/gtest.h>

namespace hone::model {
namespace {

DecoderConfig seven_billion() {
  DecoderConfig config;
  config.layers = 28, config.hidden_size = 3584, config.intermediate_size = 18944;
  config.attention.heads = 28, config.attention.kv_heads = 4, config.attention.head_dim = 128;
  config.sliding_windows.assign(28, 0);
  return config;
}

double kept(const DecoderConfig& config, const std::vector<Recompute>& choices) {
  double sum = 0;
  for (size_t i = 0; i < choices.size(); ++i) sum += recompute_cost(config, static_cast<int64_t>(i), choices[i], 2048).kept;
  return sum;
}

double repeated(const DecoderConfig& config, const std::vector<Recompute>& choices) {
  double sum = 0;
  for (size_t i = 0; i < choices.size(); ++i) sum += recompute_cost(config, static_cast<int64_t>(i), choices[i], 2048).repeated;
  return sum;
}

TEST(ActivationBudget, EndsAreAllAndNothing) {
  const auto config = seven_billion();
  EXPECT_EQ(recompute_within(config, 1, 2048), std::vector<Recompute>(28, Recompute::none));
  EXPECT_EQ(recompute_within(config, 0, 2048), std::vector<Recompute>(28, Recompute::block));
}

TEST(ActivationBudget, MoreMemoryMeansLessWorkWithinTheBudget) {
  const auto config = seven_billion();
  const double least = kept(config, std::vector<Recompute>(28, Recompute::block)),
               all = kept(config, std::vector<Recompute>(28, Recompute::none));
  double before = repeated(config, std::vector<Recompute>(28, Recompute::block));
  for (double budget : {0.1, 0.25, 0.5, 0.75, 0.9}) {
    const auto choices = recompute_within(config, budget, 2048);
    EXPECT_LE(kept(config, choices), least + budget * (all - least) + 0.015 * (all - least)) << budget;
    EXPECT_LT(repeated(config, choices), before) << budget;
    before = repeated(config, choices);
  }
}

// As good as trying every number of blocks of each kind.
TEST(ActivationBudget, ChoiceIsTheCheapest) {
  auto config = seven_billion();
  config.layers = 6, config.sliding_windows.assign(6, 0);
  const double least = kept(config, std::vector<Recompute>(6, Recompute::block)),
               all = kept(config, std::vector<Recompute>(6, Recompute::none));
  for (double budget : {0.2, 0.4, 0.6, 0.8}) {
    double best = 1e30;
    for (size_t code = 0; code < 4096; ++code) {
      std::vector<Recompute> choices;
      for (size_t i = 0; i < 6; ++i) choices.push_back(static_cast<Recompute>(code >> (2 * i) & 3));
      if (kept(config, choices) <= least + budget * (all - least)) best = std::min(best, repeated(config, choices));
    }
    EXPECT_LE(repeated(config, recompute_within(config, budget, 2048)), best * 1.0001) << budget;
  }
}

TEST(ActivationBudget, FirstBlocksRunAgain) {
  const auto choices = recompute_within(seven_billion(), 0.5, 2048);
  for (size_t i = 1; i < choices.size(); ++i)
    EXPECT_LE(recompute_cost(seven_billion(), 0, choices[i - 1], 2048).kept,
              recompute_cost(seven_billion(), 0, choices[i], 2048).kept);
}

}  // namespace
}  // namespace hone::model
