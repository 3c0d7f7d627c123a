// Episodes of several rounds: what a round without room leaves, and what checkpoints hold.
#include "hone/train/rl/turns/episode.h"

#include <gtest/gtest.h>

#include "data/byte_tokenizer.h"

namespace hone::train::rl {
namespace {

struct Played {
  RolloutSample sample;
  bool goes_on;
};

// One completion, and what follows it.
Played play(const EpisodeLimits& limits, const NextTurn& next) {
  const auto encoder = data::Encoder::make({.template_name = "qwen"}, data::chatml_tokenizer(), {});
  data::Conversation question;
  question.messages = {{.role = "user", .content = "one and one"}};
  auto ids = encoder->encode_prompt(question);
  Played played{{std::make_shared<const Prompt>(Prompt{3, question, *ids}), {}}, false};
  Episode episode(played.sample, 1, limits);
  episode.take({.tokens = {'t', 'w', 'o'}, .text = "two"});
  const auto followed = episode.follow(next, *encoder);
  EXPECT_TRUE(followed) << followed.error();
  played.goes_on = followed && *followed;
  return played;
}

Played play(const EpisodeLimits& limits, bool splits) {
  return play(limits, NextTurn{.replies = {{.role = "user", .content = "are you sure?"}}, .splits = splits});
}

TEST(Episode, ARoundWithoutRoomKeepsTheAnswer) {
  const auto roomy = play({.max_completion_length = 8, .max_model_len = 4096}, true);
  EXPECT_TRUE(roomy.goes_on);
  ASSERT_EQ(roomy.sample.earlier.size(), 1u);
  EXPECT_EQ(roomy.sample.earlier.front().completion.text, "two");
  const EpisodeLimits narrow{.max_completion_length = 8, .max_model_len = 64},
      used_up{.max_completion_length = 3, .max_model_len = 4096, .limits_total = true};
  for (const auto& limits : {narrow, used_up})
    for (bool splits : {true, false}) {
      const auto [sample, goes_on] = play(limits, splits);
      EXPECT_FALSE(goes_on);
      EXPECT_TRUE(sample.completion.truncated && sample.earlier.empty());
      EXPECT_EQ(sample.completion.text, "two");
      EXPECT_EQ(sample.completion.tokens, (std::vector<text::TokenId>{'t', 'w', 'o'}));  // without the reply
      EXPECT_EQ(training_rounds({&sample, 1}), TrainingRounds{&sample});
    }
}

TEST(Episode, AContinuationWithoutRoomLeavesTheAnswerWhole) {
  const NextTurn doubt{.keep = 1, .continued = " But wait..."};
  const auto roomy = play({.max_completion_length = 8, .max_model_len = 4096}, doubt);
  EXPECT_TRUE(roomy.goes_on);
  EXPECT_EQ(roomy.sample.completion.tokens.size(), 1 + doubt.continued->size());
  const auto [sample, goes_on] = play({.max_completion_length = 3, .max_model_len = 4096, .limits_total = true}, doubt);
  EXPECT_TRUE(!goes_on && sample.completion.truncated);
  EXPECT_EQ(sample.completion.tokens, (std::vector<text::TokenId>{'t', 'w', 'o'}));
}

TEST(Episode, CheckpointsKeepWhatMessagesCarry) {
  auto played = play({.max_completion_length = 8, .max_model_len = 4096}, true);
  auto prompt = *played.sample.prompt;
  prompt.question.messages[1].extra = {{"reasoning_content", "hm"}, {"tool_calls", {{{"name", "add"}}}}};
  played.sample.prompt = std::make_shared<const Prompt>(prompt);
  RolloutSample read{std::make_shared<const Prompt>(Prompt{3, {}, {}}), {}};
  read_json(to_json(played.sample), read);
  ASSERT_EQ(read.prompt->question.messages.size(), 3u);
  EXPECT_EQ(read.prompt->question.messages[1].extra, prompt.question.messages[1].extra);
  EXPECT_TRUE(read.turns.own_prompt);
  EXPECT_EQ(training_rounds({&read, 1}).front()->completion.text, "two");
  // Those of earlier versions.
  const auto old = messages_from_json(Json::array({Json::array({"user", "a"}), Json::array({"assistant", "b"})}));
  ASSERT_EQ(old.size(), 2u);
  EXPECT_EQ(old[1].content, "b");
  EXPECT_TRUE(old[1].extra.is_null());
}

}  // namespace
}  // namespace hone::train::rl
