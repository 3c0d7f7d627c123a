// Prompts that the teacher alone reads.
#include "hone/train/rl/teacher_prompt.h"

#include <gtest/gtest.h>

#include "data/byte_tokenizer.h"
#include "hone/train/rl/policy_teacher.h"

namespace hone::train::rl {
namespace {

const auto kTokenizer = std::make_shared<data::ByteTokenizer>(
    std::vector<std::string>{"<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>"}, "<|im_end|>");

std::shared_ptr<const data::Encoder> seeing_encoder(int64_t max_length = 0) {
  return data::Encoder::make({.template_name = "qwen2_vl", .max_length = max_length, .truncation = data::Truncation::left},
                             kTokenizer, {.model_type = "qwen2_vl", .vision = Json::object()});
}

data::Conversation row_of(std::vector<data::Message> messages, const std::string& teacher_prompt) {
  data::Conversation row;
  row.messages = std::move(messages);
  row.extra = {{"teacher_prompt", teacher_prompt}};
  row.origin = {"rows.jsonl", 7, ""};
  return row;
}

TEST(TeacherPrompt, GeneratedTextNamesNoFiles) {
  const std::string named = "<img>none.png</img>";
  const auto question = row_of(
      {{.role = "user", .content = "a"}, {.role = "assistant", .content = named}, {.role = "user", .content = "b"}}, "hint");
  RolloutSample sample{std::make_shared<const Prompt>(Prompt{0, question, {'p'}}), {.tokens = {'x'}, .text = "x"}};
  const auto seen = [&] {
    const auto tokens_t = teacher_batch({&sample}, *seeing_encoder()).tokens_t;
    const auto* ids = tokens_t.const_data_ptr<int64_t>();
    return kTokenizer->decode(std::vector<text::TokenId>(ids, ids + tokens_t.numel()), false);
  };
  EXPECT_EQ(seen(), "px") << "a row of a file may name one, which is missing: the teacher reads the student's prompt";
  sample.turns.own_prompt = true;
  EXPECT_NE(seen().find(named), std::string::npos);
  EXPECT_NE(seen().find("hint"), std::string::npos);
}

TEST(TeacherPrompt, ItIsNeverTruncated) {
  const auto row = row_of({{.role = "user", .content = "a"}}, std::string(90, 'h'));
  EXPECT_FALSE(teacher_prompt_problem(*seeing_encoder(), row));
  EXPECT_FALSE(teacher_prompt_problem(*seeing_encoder(400), row));
  const auto problem = teacher_prompt_problem(*seeing_encoder(60), row);
  ASSERT_TRUE(problem);
  EXPECT_NE(problem->message.find("rows.jsonl:7: row too long: a teacher_prompt of"), std::string::npos) << problem->message;
  const auto whole = encode_teacher_prompt(*seeing_encoder(60), row);
  ASSERT_TRUE(whole);
  EXPECT_GT(whole->ids.size(), 90u);
}

TEST(TeacherPrompt, ItMayHaveOtherImages) {
  auto row = row_of({{.role = "user", .content = "a"}}, "");
  EXPECT_FALSE(has_teacher_prompt(row));
  row.extra["teacher_images"]["path"] = "none.png";
  EXPECT_TRUE(has_teacher_prompt(row));
  auto problem = teacher_prompt_problem(*seeing_encoder(), row);
  ASSERT_TRUE(problem);
  EXPECT_NE(problem->message.find("none.png"), std::string::npos) << problem->message;
  row.extra["teacher_images"] = 5;
  EXPECT_NE(teacher_prompt_problem(*seeing_encoder(), row)->message.find("teacher_images"), std::string::npos);
  row.images = {"none.png"};
  row.extra["teacher_images"] = Json::array();
  EXPECT_FALSE(teacher_prompt_problem(*seeing_encoder(), row)) << "the teacher sees none";
}

TEST(TeacherPrompt, ItReplacesAUserMessage) {
  const auto problem = teacher_prompt_problem(*seeing_encoder(), row_of({{.role = "system", .content = "s"}}, "hint"));
  ASSERT_TRUE(problem);
  EXPECT_NE(problem->message.find("replaces the last user message"), std::string::npos) << problem->message;
}

}  // namespace
}  // namespace hone::train::rl
