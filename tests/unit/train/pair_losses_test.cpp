#include "hone/train/losses/pair_losses.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hone::train {
namespace {

double log_sigmoid_of(double x) { return -std::log1p(std::exp(-x)); }
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

// Two pairs; the ratios to the reference are 2 and -1 of the first, 0.5 and 1 of the second.
PairLogps two_pairs() {
  return {at::tensor({-10.0, -7.5}), at::tensor({-12.0, -6.0}), at::tensor({-12.0, -8.0}), at::tensor({-11.0, -7.0})};
}

std::vector<double> computed(std::string_view loss, double beta, double smoothing = 0, double baseline = 0) {
  PreferenceConfig config;
  config.beta = beta;
  config.label_smoothing = smoothing;
  config.simpo_gamma = 0.5;
  auto losses = pair_losses(loss, two_pairs(), config, at::full({}, baseline));
  return {losses[0].item<double>(), losses[1].item<double>()};
}

void expect_near(const std::vector<double>& found, std::vector<double> wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-5) << i;
}

TEST(PairLosses, LooksAtTheMargin) {
  constexpr double kBeta = 0.4, kFirst = 3, kSecond = -0.5;  // margins
  expect_near(computed("sigmoid", kBeta), {-log_sigmoid_of(kBeta * kFirst), -log_sigmoid_of(kBeta * kSecond)});
  expect_near(computed("sigmoid", kBeta, 0.25),
              {-0.75 * log_sigmoid_of(kBeta * kFirst) - 0.25 * log_sigmoid_of(-kBeta * kFirst),
               -0.75 * log_sigmoid_of(kBeta * kSecond) - 0.25 * log_sigmoid_of(-kBeta * kSecond)});
  expect_near(computed("hinge", kBeta), {0, 1.2});
  expect_near(computed("ipo", kBeta), {std::pow(kFirst - 1.25, 2), std::pow(kSecond - 1.25, 2)});
  expect_near(computed("simpo", kBeta), {-log_sigmoid_of(kBeta * kFirst - 0.5), -log_sigmoid_of(kBeta * kSecond - 0.5)});
}

TEST(PairLosses, LooksAtEachAnswer) {
  constexpr double kBeta = 0.4;
  expect_near(computed("apo_zero", kBeta), {1 - sigmoid_of(0.8) + sigmoid_of(-0.4), 1 - sigmoid_of(0.2) + sigmoid_of(0.4)});
  expect_near(computed("sppo_hard", kBeta),
              {std::pow(2 - 1.25, 2) + std::pow(-1 + 1.25, 2), std::pow(0.5 - 1.25, 2) + std::pow(1 + 1.25, 2)});
  expect_near(computed("bco_pair", kBeta, 0, 0.3),
              {-log_sigmoid_of(0.8 - 0.3) - log_sigmoid_of(0.4 + 0.3), -log_sigmoid_of(0.2 - 0.3) - log_sigmoid_of(-0.4 + 0.3)});
  // The mean drift of rejected completions is 0, of chosen ones 1.25.
  expect_near(computed("kto_pair", kBeta), {(1 - sigmoid_of(0.8) + 1 - sigmoid_of(kBeta * (1.25 + 1))) / 2,
                                            (1 - sigmoid_of(0.2) + 1 - sigmoid_of(kBeta * (1.25 - 1))) / 2});
}

TEST(PairLosses, ComparesQuantilesOfABatch) {
  // Sorted ratios of chosen completions 0.5, 2; of rejected ones -1, 1.
  expect_near(computed("aot_unpaired", 0.4), {-log_sigmoid_of(0.4 * 1.5), -log_sigmoid_of(0.4 * 1)});
}

TEST(PairLosses, OddsKeepTheirDigitsNearCertainty) {
  PairLogps logps{at::tensor({-1e-6}, at::kFloat), at::tensor({-1.0}, at::kFloat), at::zeros({1}), at::zeros({1})};
  EXPECT_NEAR(log_odds(logps).item<double>(), std::log(1e6) - (-1 - std::log(1 - std::exp(-1.0))), 1e-3);
}

}  // namespace
}  // namespace hone::train
