// The swift dialect on a tokenizer whose output can be read; equality with ms-swift itself is asked live in
// tests/data/test_peer_labels.py.
#include <gtest/gtest.h>

#include "byte_tokenizer.h"
#include "hone/data/encode/encoder.h"
#include "hone/data/rollout_prompts.h"

namespace hone::data {
namespace {

Conversation talk(std::vector<Message> messages) {
  return {.messages = std::move(messages), .origin = {.file = "t.jsonl", .line = 1}};
}

std::shared_ptr<const Encoder> encoder(EncodeConfig config) { return Encoder::make(std::move(config), chatml_tokenizer(), {}); }

std::string text_of(const Encoder& encoder, const Sample& sample) { return encoder.tokenizer().decode(sample.ids, false); }

const std::vector<Message> kSwiftRounds = {{.role = "user", .content = "a"},
                                           {.role = "assistant", .content = "bc"},
                                           {.role = "user", .content = "d"},
                                           {.role = "assistant", .content = "e"}};

TEST(SwiftEncode, LearnsAnswersAndWhatEndsThem) {
  auto swift = encoder({.template_name = "qwen3_nothinking"});
  auto sample = swift->encode(talk(kSwiftRounds));
  ASSERT_TRUE(sample) << sample.error();
  EXPECT_EQ(text_of(*swift, *sample),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nbc<|im_end|>\n<|im_start|>user\nd<|im_end|>\n<|im_start|>"
            "assistant\ne<|im_end|>\n");
  EXPECT_EQ(learned(swift->tokenizer(), sample->labels), "[20]bc<|im_end|>\n[20]e<|im_end|>\n");
}

TEST(SwiftEncode, LastRoundMasksHistory) {
  auto swift = encoder({.template_name = "qwen3_nothinking", .loss_scale = "last_round"});
  auto sample = swift->encode(talk(kSwiftRounds));
  ASSERT_TRUE(sample);
  EXPECT_EQ(learned(swift->tokenizer(), sample->labels), "[44]e<|im_end|>\n");
}

TEST(SwiftEncode, MessageLossOverridesTheRule) {
  auto messages = kSwiftRounds;
  messages[1].loss = true;
  messages[3].loss = false;
  auto swift = encoder({.template_name = "qwen3_nothinking", .loss_scale = "last_round"});
  auto sample = swift->encode(talk(messages));
  ASSERT_TRUE(sample);
  EXPECT_EQ(learned(swift->tokenizer(), sample->labels), "[20]bc<|im_end|>\n[21]<|im_end|>\n");
}

TEST(SwiftEncode, SystemPrecedence) {
  auto with = [&](EncodeConfig config, std::vector<Message> messages) {
    auto swift = encoder(std::move(config));
    auto sample = swift->encode(talk(std::move(messages)));
    EXPECT_TRUE(sample) << (sample ? "" : sample.error());
    auto text = text_of(*swift, *sample);
    return text.substr(0, text.find("<|im_start|>user"));
  };
  std::vector<Message> plain = {{.role = "user", .content = "q"}, {.role = "assistant", .content = "a"}};
  auto own = plain;
  own.insert(own.begin(), {.role = "system", .content = "row"});
  auto none = plain;
  none.insert(none.begin(), {.role = "system", .content = ""});
  EXPECT_EQ(with({.template_name = "qwen"}, plain), "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n");
  EXPECT_EQ(with({.template_name = "qwen", .system = "mine"}, plain), "<|im_start|>system\nmine<|im_end|>\n");
  EXPECT_EQ(with({.template_name = "qwen", .system = "mine"}, own), "<|im_start|>system\nrow<|im_end|>\n");
  EXPECT_EQ(with({.template_name = "qwen", .system = "mine"}, none), "");
}

TEST(SwiftEncode, EmptyThoughtsAreAddedAndNotLearned) {
  auto swift = encoder({.template_name = "qwen3"});
  auto sample = swift->encode(talk({{.role = "user", .content = "q"}, {.role = "assistant", .content = "a"}}));
  ASSERT_TRUE(sample);
  EXPECT_TRUE(text_of(*swift, *sample).ends_with("assistant\n<think>\n\n</think>\n\na<|im_end|>\n"));
  EXPECT_TRUE(learned(swift->tokenizer(), sample->labels).ends_with("]a<|im_end|>\n"));
}

TEST(SwiftEncode, WeightsOfAgentWords) {
  auto swift = encoder({.template_name = "qwen3_nothinking", .loss_scale = "react"});
  auto sample =
      swift->encode(talk({{.role = "user", .content = "q"}, {.role = "assistant", .content = "x Action: f Observation: r"}}));
  ASSERT_TRUE(sample);
  std::map<float, std::string> by_weight;
  for (size_t i = 0; i < sample->ids.size(); ++i)
    if (sample->labels[i] != kIgnore) by_weight[sample->loss_scale[i]] += swift->tokenizer().token_of(sample->ids[i]);
  EXPECT_EQ(by_weight[2], "Action: f Observation:");
  EXPECT_EQ(by_weight[1], "x <|im_end|>\n");
}

TEST(SwiftEncode, LengthRules) {
  std::vector<Message> messages = {{.role = "user", .content = "q"}, {.role = "assistant", .content = std::string(100, 'x')}};
  auto with = [&](Truncation rule) {
    return encoder({.template_name = "qwen3_nothinking", .max_length = 30, .truncation = rule})->encode_split(talk(messages));
  };
  auto dropped = with(Truncation::drop);
  ASSERT_FALSE(dropped);
  EXPECT_NE(dropped.error().find("t.jsonl:1"), std::string::npos);
  EXPECT_NE(dropped.error().find("max_length is 30"), std::string::npos);
  auto left = with(Truncation::left), right = with(Truncation::right), parts = with(Truncation::split);
  ASSERT_TRUE(left && right && parts);
  EXPECT_EQ((*left)[0].ids.size(), 30u);
  EXPECT_EQ((*left)[0].labels[0], kIgnore);
  EXPECT_EQ((*left)[0].labels[1], 'x');
  EXPECT_EQ((*right)[0].ids[0], 257);
  EXPECT_EQ(parts->size(), 5u);
  EXPECT_EQ((*parts)[4].ids.size(), 2u);
}

TEST(SwiftEncode, PromptEndsWhereTheModelSpeaks) {
  auto swift = encoder({.template_name = "qwen3"});
  auto prompt = swift->encode_prompt(talk({{.role = "user", .content = "q"}}));
  ASSERT_TRUE(prompt);
  EXPECT_EQ(swift->tokenizer().decode(*prompt, false),
            "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
  EXPECT_EQ(swift->stop_ids(), (std::vector<text::TokenId>{258, 256}));
}

TEST(SwiftEncode, GuardKeepsSpecialTextAsText) {
  std::vector<Message> messages = {{.role = "user", .content = "x<|im_end|>y"}, {.role = "assistant", .content = "a"}};
  auto open = encoder({.template_name = "qwen3_nothinking"})->encode(talk(messages));
  auto guarded = encoder({.template_name = "qwen3_nothinking", .guard_special_tokens = true})->encode(talk(messages));
  ASSERT_TRUE(open && guarded);
  EXPECT_EQ(std::count(open->ids.begin(), open->ids.end(), 258), 3);
  EXPECT_EQ(std::count(guarded->ids.begin(), guarded->ids.end(), 258), 2);
}

TEST(SwiftEncode, BadConversationsAreErrorsOfTheRow) {
  auto swift = encoder({.template_name = "qwen"});
  EXPECT_FALSE(swift->encode(talk({})));
  EXPECT_FALSE(swift->encode(talk({{.role = "tool", .content = "r"}, {.role = "assistant", .content = "a"}})));
  auto broken = talk({{.role = "user", .content = "q"}, {.role = "tool_call", .content = "not json"}});
  EXPECT_FALSE(swift->encode(broken));
  auto tools = talk({{.role = "user", .content = "q"}, {.role = "assistant", .content = "a"}});
  tools.tools = "{broken";
  EXPECT_FALSE(swift->encode(tools));
}

TEST(SwiftEncode, UnknownNamesAreUsageErrors) {
  EXPECT_THROW(encoder({.template_name = "qwen2_55"}), UserError);
  EXPECT_THROW(encoder({.template_name = "qwen", .loss_scale = "defualt"}), UserError);
  EXPECT_THROW(encoder({.template_name = "qwen", .tool_format = "none_such"}), UserError);
}

TEST(SwiftEncode, RepliesOfToolsNameNoImages) {
  const auto tokenizer = std::make_shared<ByteTokenizer>(
      std::vector<std::string>{"<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>"},
      "<|im_end|>");
  const auto sees = Encoder::make({.template_name = "qwen2_vl"}, tokenizer, {.model_type = "qwen2_vl", .vision = Json::object()});
  const std::string name = "<img>none.png</img>";
  const auto question = talk({{.role = "user", .content = "a"}});
  const auto replies = encode_replies(*sees, question, {{.role = "user", .content = name}});
  ASSERT_TRUE(replies) << replies.error();
  EXPECT_NE(tokenizer->decode(replies->ids, false).find(name), std::string::npos);
  const auto row = sees->encode_prompt(talk({{.role = "user", .content = name}}));
  ASSERT_FALSE(row);
  EXPECT_NE(row.error().find("none.png"), std::string::npos) << "a row of a file may name them";
}

}  // namespace
}  // namespace hone::data
