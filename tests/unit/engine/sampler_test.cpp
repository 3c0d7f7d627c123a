#include "hone/engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "hone/ops/sample_tokens.h"

namespace hone::engine {
namespace {

using text::TokenId;

std::map<TokenId, int> draws(const SamplingParams& params, const std::vector<float>& logits, int count = 4000) {
  std::map<TokenId, int> seen;
  Sampler sampler(params, {});
  for (int i = 0; i < count; ++i) {
    auto row = logits;
    auto token = sampler.sample(row);
    ++seen[token];
    sampler.accept(token);  // moves the random stream on
  }
  return seen;
}

TokenId first(const SamplingParams& params, std::vector<float> logits, std::vector<TokenId> prompt = {},
              const std::vector<TokenId>& answer = {}) {
  Sampler sampler(params, prompt);
  for (auto token : answer) sampler.accept(token);
  return sampler.sample(logits);
}

TEST(Sampler, GreedyTakesTheLikeliestAndTheFirstOfEquals) { EXPECT_EQ(first({}, {1, 5, 5, 2}), 1); }

TEST(Sampler, FrequenciesFollowTheSoftmax) { EXPECT_NEAR(draws({.temperature = 1}, {0.f, std::log(3.f)})[1], 3000, 150); }

TEST(Sampler, TemperatureSharpens) { EXPECT_NEAR(draws({.temperature = 0.5}, {0.f, std::log(3.f)})[1], 3600, 150); }

// Every way to cut the tail, over many tokens: frequencies match the renormalised probabilities (chi-square, far below its 1e-6
// quantile).
TEST(Sampler, DistributionsMatchWhatIsLeft) {
  std::vector<float> logits;
  for (int i = 0; i < 600; ++i) logits.push_back(static_cast<float>(std::sin(i * 1.7) * 3));
  std::vector<std::pair<double, TokenId>> order;
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i)
    total += std::exp(logits[i]), order.emplace_back(-std::exp(logits[i]), static_cast<TokenId>(i));
  std::ranges::sort(order);
  for (SamplingParams params : {SamplingParams{.temperature = 1},
                                {.temperature = 1, .top_k = 20},
                                {.temperature = 1, .top_p = 0.5},
                                {.temperature = 1, .min_p = 0.3},
                                {.temperature = 1, .top_k = 100, .top_p = 0.8, .min_p = 0.05}}) {
    size_t kept = params.top_k ? static_cast<size_t>(params.top_k) : order.size();
    double reach = 0, within = 0;
    for (size_t i = 0; i < kept; ++i) within -= order[i].first;
    size_t nucleus = 0;
    while (nucleus < kept && (nucleus == 0 || reach < params.top_p * within)) reach -= order[nucleus++].first;
    while (nucleus > 1 && order[nucleus - 1].first > params.min_p * order[0].first) --nucleus;
    double left = 0;
    for (size_t i = 0; i < nucleus; ++i) left -= order[i].first;
    constexpr int kDraws = 10000;
    auto seen = draws(params, logits, kDraws);
    double chi = 0;
    for (size_t i = 0; i < nucleus; ++i) {
      double expected = -order[i].first / left * kDraws;
      chi += std::pow(seen[order[i].second] - expected, 2) / expected;
      seen.erase(order[i].second);
    }
    EXPECT_TRUE(seen.empty()) << "a token outside was drawn, top_k " << params.top_k << " top_p " << params.top_p;
    EXPECT_LT(chi, static_cast<double>(nucleus) + 6 * std::sqrt(2.0 * static_cast<double>(nucleus)) + 20);
  }
}

TEST(Sampler, TopKTopPAndMinPCutTheTail) {
  std::vector<float> logits{std::log(0.5f), std::log(0.3f), std::log(0.15f), std::log(0.05f)};
  EXPECT_EQ(draws({.temperature = 1, .top_k = 2}, logits).size(), 2u);
  EXPECT_EQ(draws({.temperature = 1, .top_p = 0.75}, logits).size(), 2u);
  EXPECT_EQ(draws({.temperature = 1, .top_p = 0.81}, logits).size(), 3u);
  EXPECT_EQ(draws({.temperature = 1, .min_p = 0.29}, logits).size(), 3u);
}

TEST(Sampler, PenaltiesTouchOnlyTokensSeen) {
  EXPECT_EQ(first({.repetition_penalty = 2.0}, {2, 1.5f, -1}, {0}), 1);
  EXPECT_EQ(first({.presence_penalty = 1.0}, {2, 1.5f, -1}, {0}), 0) << "the prompt does not count";
  EXPECT_EQ(first({.presence_penalty = 1.0}, {2, 1.5f, -1}, {}, {0}), 1);
  EXPECT_EQ(first({.frequency_penalty = 0.3}, {2, 1.5f, -1}, {}, {0}), 0);
  EXPECT_EQ(first({.frequency_penalty = 0.3}, {2, 1.5f, -1}, {}, {0, 0}), 1);
}

TEST(Sampler, BiasBadWordsAndMinimumLength) {
  EXPECT_EQ(first({.logit_bias = {{2, 10.f}}}, {2, 1, 0}), 2);
  EXPECT_EQ(first({.bad_words = {{0}}}, {2, 1, 0}), 1);
  EXPECT_EQ(first({.bad_words = {{1, 0}}}, {2, 1, 0}), 0);
  EXPECT_EQ(first({.bad_words = {{1, 0}}}, {2, 1, 0}, {}, {1}), 1) << "0 would complete the bad words";
  EXPECT_EQ(first({.min_tokens = 2, .eos_token_ids = {0}}, {2, 1, 0}, {}, {1}), 1);
  EXPECT_EQ(first({.min_tokens = 2, .eos_token_ids = {0}}, {2, 1, 0}, {}, {1, 1}), 0);
}

// Lets these tokens through, wherever it stands.
struct Only : Constraint {
  explicit Only(std::vector<TokenId> tokens) {
    for (auto token : tokens) allowed->bits[0] |= uint64_t{1} << token;
  }
  std::shared_ptr<const TokenBitmask> mask(State) const override { return allowed; }
  State next(State state, TokenId) const override { return state; }
  std::shared_ptr<TokenBitmask> allowed = std::make_shared<TokenBitmask>(TokenBitmask{{0}});
};
std::shared_ptr<const Constraint> only(std::vector<TokenId> tokens) { return std::make_shared<Only>(std::move(tokens)); }

TEST(Sampler, AConstraintGoesBeforeTheMinimumLength) {
  for (double temperature : {0.0, 1.0}) {
    EXPECT_EQ(first({.temperature = temperature, .top_k = 2, .constraint = only({0}), .min_tokens = 9, .eos_token_ids = {0}},
                    {2, 1, 0}),
              0);
    EXPECT_EQ(first({.temperature = temperature, .constraint = only({0, 2}), .min_tokens = 9, .eos_token_ids = {0}}, {2, 1, 0}),
              2);
  }
}

TEST(Sampler, WhereNothingMayFollowItSaysSo) {
  for (SamplingParams params : {SamplingParams{},
                                {.temperature = 1},
                                {.temperature = 1, .top_k = 2},
                                {.temperature = 1, .top_p = 0.5},
                                {.temperature = 1, .min_p = 0.5}}) {
    params.bad_words = {{0}, {1}, {2}};
    EXPECT_THROW(first(params, {2, 1, 0}), ConstraintError);
    EXPECT_THROW(first(params, {NAN, NAN, NAN}), ConstraintError);
    std::vector<float> logits{2, 1, 0};
    EXPECT_THROW(Sampler(params, {}).continuations(logits, 2, 0), ConstraintError);
  }
  EXPECT_EQ(first({.temperature = 1, .min_p = 0.9, .constraint = only({2})}, {2, 1, 0}), 2);
}

TEST(Sampler, ATemperatureNextToZeroIsZero) {
  for (double temperature : {1e-300, 1e-46, 1e-9}) {
    EXPECT_EQ(complete_sampling_params({.temperature = temperature}).temperature, 0);
    EXPECT_EQ(first(complete_sampling_params({.temperature = temperature}), {1, 5, 5, 2}), 1);
  }
  EXPECT_EQ(complete_sampling_params({.temperature = 0.01}).temperature, 0.01);
  EXPECT_EQ(first({.temperature = 1e-5}, {1, 5, 4.999f, 2}), 1);
}

TEST(Sampler, SeedsDifferAndRepeat) {
  std::vector<float> flat(1000, 0.f);
  auto draw = [&](uint64_t seed) { return first({.temperature = 1, .seed = seed}, flat); };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

TEST(Sampler, LogprobsAreOfTheRawLogits) {
  std::vector<float> logits{std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  auto found = position_logprobs(logits, 1, 2);
  EXPECT_NEAR(found.chosen.logprob, std::log(0.3), 1e-6);
  EXPECT_EQ(found.token_rank, 2);
  ASSERT_EQ(found.top.size(), 2u);
  EXPECT_EQ(found.top[0].token, 0);
  EXPECT_NEAR(found.top[0].logprob, std::log(0.5), 1e-6);
}

TEST(Sampler, WhatADeviceMayDrawIsWhatTheHostDraws) {
  at::manual_seed(5);
  auto logits_rv = at::randn({4, 300}) * 3;
  ops::SamplingTensors settings{
      .temperatures = {0.7f, 1.5f, 1.0f, 2.0f}, .keys = {1, 2, 3, 4}, .top_k = {5, 0, 20, 0}, .top_p = {1, 0.6f, 0.8f, 1}};
  auto kept_rv = ops::top_k_top_p_logits(logits_rv, settings).isneginf().logical_not();
  for (int64_t row = 0; row < 4; ++row) {
    auto i = static_cast<size_t>(row);
    SamplingParams params{.temperature = settings.temperatures[i], .top_k = settings.top_k[i], .top_p = settings.top_p[i]};
    auto drawn = at::zeros({300});
    for (uint64_t seed = 0; seed < 3000; ++seed) {
      params.seed = seed;
      auto logits = logits_rv[row].clone();
      auto token = Sampler(params, {}).sample({logits.data_ptr<float>(), 300});
      drawn[token] += 1;
    }
    EXPECT_EQ((drawn > 0).logical_and(kept_rv[row].logical_not()).sum().item<int64_t>(), 0) << "row " << row;
    auto likely = (logits_rv[row] / settings.temperatures[i]).softmax(0) > 0.01;
    EXPECT_EQ(likely.logical_and(kept_rv[row]).logical_and(drawn == 0).sum().item<int64_t>(), 0) << "row " << row;
  }
}

}  // namespace
}  // namespace hone::engine
