// The factory dialect on a readable tokenizer; equality with LLaMA-Factory itself is asked live in
// tests/data/test_peer_labels.py.
#include <gtest/gtest.h>

#include "byte_tokenizer.h"
#include "hone/data/encode/encoder.h"
#include "hone/data/encode/truncate.h"

namespace hone::data {
namespace {

std::shared_ptr<const Encoder> factory_encoder(EncodeConfig config) {
  config.dialect = Dialect::factory;
  return Encoder::make(std::move(config), chatml_tokenizer(), {});
}

const Conversation kTwoRounds = {.messages = {{.role = "user", .content = "a"},
                                              {.role = "assistant", .content = "bc"},
                                              {.role = "user", .content = "d"},
                                              {.role = "assistant", .content = "e"}}};

std::string labels(const std::shared_ptr<const Encoder>& encoder, const Conversation& conversation) {
  auto sample = encoder->encode(conversation);
  EXPECT_TRUE(sample) << (sample ? "" : sample.error());
  return sample ? learned(encoder->tokenizer(), sample->labels) : "";
}

TEST(FactoryEncode, EveryAnswerIsLearned) {
  EXPECT_EQ(labels(factory_encoder({.template_name = "qwen3_nothink"}), kTwoRounds), "[20]bc<|im_end|>\n[20]e<|im_end|>\n");
}

TEST(FactoryEncode, MaskHistoryLearnsTheLastAnswer) {
  EXPECT_EQ(labels(factory_encoder({.template_name = "qwen3_nothink", .mask_history = true}), kTwoRounds), "[44]e<|im_end|>\n");
}

TEST(FactoryEncode, TrainOnPromptLearnsEverything) {
  auto text = labels(factory_encoder({.template_name = "qwen3_nothink", .train_on_prompt = true}), kTwoRounds);
  EXPECT_EQ(text.find('['), std::string::npos);
}

TEST(FactoryEncode, BudgetIsShared) {
  using Shares = std::pair<int64_t, int64_t>;
  EXPECT_EQ(infer_seqlen(3000, 2000, 1000), Shares(600, 400));
  EXPECT_EQ(infer_seqlen(2000, 3000, 1000), Shares(400, 600));
  EXPECT_EQ(infer_seqlen(1000, 100, 1000), Shares(900, 100));
  EXPECT_EQ(infer_seqlen(100, 1000, 1000), Shares(100, 900));
  EXPECT_EQ(infer_seqlen(100, 500, 1000), Shares(100, 500));
  EXPECT_EQ(infer_seqlen(500, 100, 1000), Shares(500, 100));
  EXPECT_EQ(infer_seqlen(10, 10, 1000), Shares(10, 10));
}

TEST(FactoryEncode, LateTurnsAreCutByBudget) {
  auto sample = factory_encoder({.template_name = "qwen3_nothink", .max_length = 30})->encode(kTwoRounds);
  ASSERT_TRUE(sample) << sample.error();
  EXPECT_EQ(sample->ids.size(), 30u);
}

TEST(FactoryEncode, EfficientEosIsLearnedWithoutBeingInTheText) {
  auto tokenizer = std::make_shared<ByteTokenizer>(
      std::vector<std::string>{"<|endoftext|>", "[gMASK]", "<sop>", "<|user|>", "<|assistant|>", "<|system|>", "<|observation|>"},
      "<|endoftext|>");
  auto glm = Encoder::make({.dialect = Dialect::factory, .template_name = "glm4"}, tokenizer, {});
  auto sample = glm->encode(kTwoRounds);
  ASSERT_TRUE(sample) << sample.error();
  EXPECT_EQ(tokenizer->decode(sample->ids, false),
            "[gMASK]<sop><|user|>\na<|assistant|>\nbc<|user|>\nd<|assistant|>\ne<|endoftext|>");
  EXPECT_EQ(learned(*tokenizer, sample->labels), "[6]\nbc<|endoftext|>[3]\ne<|endoftext|>");
}

TEST(FactoryEncode, SystemIsFoldedIntoTheFirstTurn) {
  auto tokenizer = std::make_shared<ByteTokenizer>(std::vector<std::string>{"<s>", "</s>"}, "</s>", "<s>");
  auto mistral = Encoder::make({.dialect = Dialect::factory, .template_name = "mistral"}, tokenizer, {});
  auto sample = mistral->encode(
      {.messages = {
           {.role = "system", .content = "S"}, {.role = "user", .content = "U"}, {.role = "assistant", .content = "A"}}});
  ASSERT_TRUE(sample) << sample.error();
  EXPECT_EQ(tokenizer->decode(sample->ids, false), "<s>[INST] S\n\nU[/INST] A</s>");
}

TEST(FactoryEncode, PairsShareTheirPrompt) {
  auto factory = factory_encoder({.template_name = "qwen3_nothink", .max_length = 100});
  auto conversation = kTwoRounds;
  conversation.rejected = conversation.messages;
  conversation.rejected.back().content = "no";
  auto pair = factory->encode_pair(conversation);
  ASSERT_TRUE(pair) << pair.error();
  EXPECT_EQ(learned(factory->tokenizer(), pair->first.labels), "[44]e<|im_end|>\n");
  EXPECT_EQ(learned(factory->tokenizer(), pair->second.labels), "[44]no<|im_end|>\n");
}

TEST(FactoryEncode, WrongOrderIsAnError) {
  auto factory = factory_encoder({.template_name = "qwen3_nothink"});
  EXPECT_FALSE(factory->encode(
      {.messages = {{.role = "user", .content = "a"}, {.role = "user", .content = "b"}, {.role = "assistant", .content = "c"}}}));
  EXPECT_FALSE(factory->encode({.messages = {{.role = "user", .content = "a"}}}));
}

TEST(FactoryEncode, TextIsLearnedWhole) {
  auto factory = factory_encoder({.template_name = "default", .pretraining = true});
  EXPECT_EQ(labels(factory, {.messages = {{.role = "user", .content = "abc"}}, .plain_text = true}), "abc<|im_end|>");
}

}  // namespace
}  // namespace hone::data
