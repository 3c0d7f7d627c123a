#include <gtest/gtest.h>

#include <cmath>

#include "hone/train/rl/advantages.h"
#include "hone/train/rl/rewards/math_answer.h"
#include "hone/train/rl/rewards/reward.h"

namespace hone::train::rl {
namespace {

std::vector<double> scores(const std::string& name, const std::vector<std::string>& texts, RewardConfig config = {},
                           int64_t tokens = 10) {
  data::Conversation question;
  question.extra = {{"solution", "$\\frac{3}{4}$"}};
  std::vector<RewardInput> completions;
  for (const auto& text : texts) completions.push_back({&question, text, tokens});
  config.functions = {name};
  return make_rewards(config)[0]->score(completions);
}

TEST(Rewards, FormsAreJudgedFromEndToEnd) {
  EXPECT_EQ(scores("format", {"<think>a</think> <answer>b</answer>", "<think>a</think><answer>b</answer> ",
                              "x<think>a</think><answer>b</answer>", "<think>a</think>b<answer>c</answer>",
                              "<think></think>x</think>\n<answer></answer>", ""}),
            (std::vector<double>{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(scores("react_format",
                   {"<think>a</think>Action: b Action Input: c", "<think>a</think>Action: b", "Action: b Action Input: c"}),
            (std::vector<double>{1, 0, 0}));
}

TEST(Rewards, RepetitionCountsNGramsThatWereThere) {
  EXPECT_DOUBLE_EQ(scores("repetition", {"a b c a b c"}, {.repetition_words = 3})[0], -0.25);
  EXPECT_DOUBLE_EQ(scores("repetition", {"A\u3000b a B"}, {.repetition_words = 2, .repetition_penalty = -3})[0], -1.0);
  EXPECT_DOUBLE_EQ(scores("repetition", {"É Ä é ä"}, {.repetition_words = 2, .repetition_penalty = -3})[0], -1.0);
  EXPECT_DOUBLE_EQ(scores("repetition", {"a b"})[0], 0);
}

TEST(Rewards, LengthsCountTokens) {
  RewardConfig config{.max_completion_length = 20, .soft_margin = 15};
  EXPECT_DOUBLE_EQ(scores("soft_overlong", {""}, config, 8)[0], -0.2);
  EXPECT_DOUBLE_EQ(scores("soft_overlong", {""}, config, 5)[0], 0);
  EXPECT_NEAR(scores("cosine", {"\\boxed{0.75}", "?"}, config, 10)[0], 0.75, 1e-12);
  EXPECT_NEAR(scores("cosine", {"\\boxed{0.75}", "?"}, config, 10)[1], -0.25, 1e-12);
  EXPECT_THROW(scores("soft_overlong", {""}), UserError);
  EXPECT_THROW(scores("speed", {""}), UserError);
  EXPECT_THROW(scores("http://example.com/judge", {""}), UserError);
}

std::string repeated(std::string_view piece, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += piece;
  return text;
}

// Each would take minutes, or the stack, were it read more than a few times or to the end.
TEST(Rewards, HostileAnswersAreOnlyWrong) {
  constexpr int kMany = 50'000;
  for (std::string_view piece : {"(",        "{",        "\\sqrt",     "-",           "+-",  "1+",  "1,", "2^",
                                 "x!",       "\\boxed{", "\\boxed{1}", "\\boxed{1}$", "\\(", "\\[", "$ ", "answer \\(",
                                 "answer $", "\\pm",     "\\text{",    "\\cup",       "7",   "1=",  "sin"}) {
    auto text = repeated(piece, kMany);
    for (const auto& answer :
         {text, "\\boxed{" + text + "}", "$" + text + "$", "<answer>" + text + "</answer>", "The answer is $" + text + "$"})
      EXPECT_EQ(scores("accuracy", {answer})[0], 0) << answer.substr(0, 40);
  }
  for (std::string text : {"\\boxed{\\frac}", "\\boxed{x_}", "\\boxed{1^^2}", "\\boxed{\\}", "$$$", "answer \\("})
    EXPECT_EQ(scores("accuracy", {text})[0], 0) << text;
}

TEST(Advantages, GroupsOfEvenRewardsGiveNone) {
  AdvantageConfig config{.weights = {1}};
  RewardTable rewards{{1}, {1}, {0}, {2}};
  auto advantages = advantages_of(total_rewards(rewards, config.weights), rewards, 2, config);
  EXPECT_EQ(advantages[0], 0);
  EXPECT_NEAR(advantages[3], 1 / (std::sqrt(2) + 1e-4), 1e-12);
  EXPECT_EQ(group_deviations({1, 1, 0, 2}, 2)[0], 0);
}

}  // namespace
}  // namespace hone::train::rl
