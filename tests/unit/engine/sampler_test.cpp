#include "hone/engine/sampler.h"

#include <gtest/gtest.h>

#include <map>

namespace hone::engine {
namespace {

std::map<text::TokenId, int> draws(const SamplingConfig& config, std::vector<float> logits, int count = 4000) {
  std::map<text::TokenId, int> seen;
  Sampler sampler(config, 0);
  for (int i = 0; i < count; ++i) {
    auto row = logits;
    ++seen[sampler.next(row, {})];
  }
  return seen;
}

TEST(Sampler, GreedyTakesTheLikeliestAndTheFirstOfEquals) {
  std::vector<float> logits{1, 5, 5, 2};
  EXPECT_EQ(Sampler({}, 0).next(logits, {}), 1);
}

TEST(Sampler, FrequenciesFollowTheSoftmax) {
  auto seen = draws({.sample = true}, {0.f, std::log(3.f)});
  EXPECT_NEAR(seen[1], 3000, 150);
}

TEST(Sampler, TemperatureSharpens) {
  auto seen = draws({.sample = true, .temperature = 0.5}, {0.f, std::log(3.f)});
  EXPECT_NEAR(seen[1], 3600, 150);
}

TEST(Sampler, TopKTopPAndMinPCutTheTail) {
  std::vector<float> logits{std::log(0.5f), std::log(0.3f), std::log(0.15f), std::log(0.05f)};
  EXPECT_EQ(draws({.sample = true, .top_k = 2}, logits).size(), 2u);
  EXPECT_EQ(draws({.sample = true, .top_p = 0.75}, logits).size(), 2u);
  EXPECT_EQ(draws({.sample = true, .top_p = 0.81}, logits).size(), 3u);
  EXPECT_EQ(draws({.sample = true, .min_p = 0.29}, logits).size(), 3u);
}

TEST(Sampler, RepetitionPenaltyTouchesOnlyTokensSeen) {
  std::vector<float> logits{2, 1.5f, -1};
  std::vector<text::TokenId> context{0};
  EXPECT_EQ(Sampler({.repetition_penalty = 2.0}, 0).next(logits, context), 1);
  EXPECT_FLOAT_EQ(logits[0], 1.f);
  EXPECT_FLOAT_EQ(logits[2], -1.f);
}

TEST(Sampler, StreamsDifferAndRepeat) {
  SamplingConfig config{.sample = true};
  std::vector<float> flat(1000, 0.f);
  auto draw = [&](uint64_t stream) {
    auto row = flat;
    return Sampler(config, stream).next(row, {});
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

}  // namespace
}  // namespace hone::engine
