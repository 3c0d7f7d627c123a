// Options as typed fields: what a field knows of its option, in either dialect.
#include <gtest/gtest.h>

#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/tuners.h"
#include "hone/cli/dialect_flags.h"
#include "hone/cli/run.h"

namespace hone::cli {
namespace {

Options parsed(FrontEnd front_end, std::vector<std::string> words) {
  SystemAccess system{[](const std::string&) { return std::string("{}"); },
                      [](const std::string&) { return std::optional<std::string>(); }};
  return parse_invocation(read_invocation(front_end, std::move(words)), system).options;
}

TEST(Arguments, FieldsHaveTheTypesAndValuesOfTheirOptions) {
  const auto options = parsed(FrontEnd::hone, {"sft", "--lora_rank", "4", "--lora_dropout", "0.5", "--use_dora", "true",
                                               "--target_modules", "q_proj", "v_proj", "--interleave_prob", "0.25", "0.75"});
  const TunerArguments tuner(options);
  EXPECT_EQ(*tuner.lora_rank, 4);
  EXPECT_EQ(*tuner.lora_dropout, 0.5);
  EXPECT_TRUE(*tuner.use_dora);
  EXPECT_EQ(*tuner.target_modules, (std::vector<std::string>{"q_proj", "v_proj"}));
  EXPECT_EQ(*DataArguments(options).interleave_prob, (std::vector<double>{0.25, 0.75}));
  EXPECT_EQ(tuner.target_modules->size(), 2u);
}

TEST(Arguments, WhatIsNotGivenIsNoneOrADefault) {
  const auto options = parsed(FrontEnd::hone, {"sft"});
  const OptimizerArguments optimizer(options);
  EXPECT_FALSE(optimizer.lorap_lr_ratio.has_value());
  EXPECT_EQ(optimizer.lorap_lr_ratio.optional(), std::nullopt);
  EXPECT_EQ(optimizer.lorap_lr_ratio.value_or(16), 16);
  EXPECT_TRUE(optimizer.learning_rate.is_auto());
  EXPECT_FALSE(optimizer.weight_decay.is_set());
  EXPECT_TRUE(optimizer.weight_decay.has_value());
}

TEST(Arguments, AnOptionOfOtherCommandsIsEmptyHere) {
  const auto options = parsed(FrontEnd::hone, {"sft"});
  const EvalArguments eval(options);  // of `eval`
  EXPECT_FALSE(eval.eval_task.exists());
  EXPECT_FALSE(eval.eval_task.has_value());
  EXPECT_EQ(*eval.eval_task, "");
  EXPECT_FALSE(eval.log_samples);
  EXPECT_TRUE(eval.include_path->empty());
  EXPECT_FALSE(eval.eval_num_proc.is_set());
}

TEST(Arguments, FlagsAreThoseOfTheFrontEnd) {
  EXPECT_EQ(DataArguments(parsed(FrontEnd::hone, {"sft"})).max_length.flag(), "--max_length");
  EXPECT_EQ(DataArguments(parsed(FrontEnd::factory, {"train"})).max_length.flag(), "--cutoff_len");
}

TEST(Arguments, MessagesOfComponentsNameOptionsAsTheFrontEndDoes) {
  const auto text = "raise --max_length (--model m), not my--model; --gradient_checkpointing true, --no_such, --";
  EXPECT_EQ(in_dialect(text, FrontEnd::hone, kSft), text);
  EXPECT_EQ(in_dialect(text, FrontEnd::factory, kTrain),
            "raise --cutoff_len (--model_name_or_path m), not my--model; --gradient_checkpointing true, --no_such, --");
  EXPECT_EQ(in_dialect("--output_dir", FrontEnd::factory, kTrain), "--output_dir");
  EXPECT_EQ(in_dialect("--output_dir", FrontEnd::factory, kExport), "--export_dir");
}

TEST(Arguments, OnlyReadingAFieldCountsAsUse) {
  const auto options = parsed(FrontEnd::hone, {"sft", "--galore_rank", "4"});
  const OptimizerArguments optimizer(options);
  EXPECT_EQ(options.given_but_unread().size(), 1u);
  EXPECT_EQ(*optimizer.galore_rank, 4);
  EXPECT_TRUE(options.given_but_unread().empty());
}

}  // namespace
}  // namespace hone::cli
