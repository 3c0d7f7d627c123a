// Groups whose completions are all worth the same, by rewards that binary numbers do not hold exactly.
#include <gtest/gtest.h>

#include "hone/train/rl/advantages.h"

namespace hone::train::rl {
namespace {

TEST(EvenGroups, RoundingMakesNoDifference) {
  std::vector<double> totals(8, 0.1);
  for (double total : {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.2}) totals.push_back(total);
  auto even = zero_variance_groups(totals, 8);
  EXPECT_TRUE(even[0] && even[7]);
  EXPECT_FALSE(even[8] || even[15]);
  RewardTable rewards;
  for (double total : totals) rewards.push_back({total});
  for (const auto& [name, value] : reward_metrics(totals, rewards, {"r"}, 8, RewardScale::group))
    if (name == "frac_reward_zero_std") {
      EXPECT_EQ(value, 0.5);
    }
}

TEST(EvenGroups, OneCompletionHasNoAdvantage) {
  for (auto scale : {RewardScale::group, RewardScale::batch, RewardScale::none, RewardScale::gdpo})
    for (auto estimator : {Estimator::grpo, Estimator::rloo, Estimator::reinforce_plus_plus}) {
      const AdvantageConfig config{.estimator = estimator, .scale = scale, .weights = {1, 2}};
      EXPECT_EQ(advantages_of({0.7}, {{0.3, 0.2}}, 1, config), std::vector<double>{0});
    }
}

}  // namespace
}  // namespace hone::train::rl
