#include "hone/cli/dialect_flags.h"

#include <gtest/gtest.h>

#include "hone/base/config_error.h"

namespace hone::cli {
namespace {

std::string told(const UserError& error, FrontEnd front_end, Verbs verb) {
  const auto shown = in_dialect(error, front_end, verb);
  return fmt::format("{} | {}", shown.what(), shown.hint());
}

TEST(DialectFlags, FieldsOfAConfigAreTheOptionsThatFillThem) {
  const ConfigError beta("`beta` is 0", "lower `micro_batch_size`, or ask `hone plan`");
  EXPECT_EQ(told(beta, FrontEnd::swift, kRlhf), "--beta is 0 | lower --per_device_train_batch_size, or ask `hone plan`");
  EXPECT_EQ(told(beta, FrontEnd::factory, kTrain), "--pref_beta is 0 | lower --per_device_train_batch_size, or ask `hone plan`");
  const ConfigError stage("`stage` is odd");
  EXPECT_EQ(told(stage, FrontEnd::swift, kRlhf), "--rlhf_type is odd | ");
  EXPECT_EQ(told(stage, FrontEnd::factory, kTrain), "--stage is odd | ");
}

TEST(DialectFlags, EveryErrorNamesSettingsAsTheFrontEndDoes) {
  EXPECT_EQ(told(UserError(ExitCode::bad_data, "`dataset` is empty", "lower `max_length`"), FrontEnd::factory, kTrain),
            "--dataset is empty | lower --cutoff_len");
  EXPECT_EQ(told(ConfigError("an odd ` and `nothing` of ours"), FrontEnd::hone, kSft), "an odd ` and `nothing` of ours | ");
}

TEST(DialectFlags, TheNameThatTheUserWroteIsShown) {
  const TypedNames typed{{"max_new_tokens", "max_completion_length"}};
  EXPECT_EQ(in_dialect("lower `max_new_tokens` or --max_length", FrontEnd::swift, kRlhf, typed),
            "lower --max_completion_length or --max_length");
}

TEST(DialectFlags, AFrontEndWithoutTheOptionShowsThatOfHone) {
  EXPECT_EQ(in_dialect("write `ref_model`", FrontEnd::swift, kRlhf), "write --ref_model");
}

}  // namespace
}  // namespace hone::cli
