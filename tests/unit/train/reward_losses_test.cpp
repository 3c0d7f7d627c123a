// What reward models and KTO sum up, by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "hone/train/losses/kto.h"
#include "hone/train/losses/reward.h"

namespace hone::train {
namespace {

double sigmoid_by_hand(double x) { return 1 / (1 + std::exp(-x)); }

TEST(RewardLosses, AMarginIsTakenOffTheLead) {
  auto chosen = at::tensor({1.5, -0.5}), rejected = at::tensor({0.5, 0.5});
  auto plain = ranking_losses(chosen, rejected), asked = ranking_losses(chosen, rejected, at::tensor({2.0, 0.0}));
  EXPECT_NEAR(plain[0].item<double>(), -std::log(sigmoid_by_hand(1)), 1e-6);
  EXPECT_NEAR(plain[1].item<double>(), -std::log(sigmoid_by_hand(-1)), 1e-6);
  EXPECT_NEAR(asked[0].item<double>(), -std::log(sigmoid_by_hand(-1)), 1e-6);
  EXPECT_NEAR(asked[1].item<double>(), plain[1].item<double>(), 1e-6);
}

TEST(FeedbackLosses, GoodAnswersRiseAndBadOnesFallFromWhereTheModelIs) {
  PreferenceConfig config;
  config.beta = 0.5;
  config.desirable_weight = 2;
  config.undesirable_weight = 3;
  auto losses = kto_losses({at::tensor({4.0, 4.0}), at::tensor({1.0, 0.0}) > 0}, at::full({}, 1.0), config);
  EXPECT_NEAR(losses[0].item<double>(), 2 * (1 - sigmoid_by_hand(1.5)), 1e-6);
  EXPECT_NEAR(losses[1].item<double>(), 3 * (1 - sigmoid_by_hand(-1.5)), 1e-6);
  auto unpaired = kto_losses({at::tensor({4.0, 4.0}), at::tensor({1.0, 0.0}) > 0}, at::zeros({}), config);
  EXPECT_NEAR(unpaired[1].item<double>(), 3 * sigmoid_by_hand(2), 1e-6);  // trl's apo_zero_unpaired
}

}  // namespace
}  // namespace hone::train
