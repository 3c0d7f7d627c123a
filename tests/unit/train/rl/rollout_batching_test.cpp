#include <gtest/gtest.h>

#include "hone/base/error.h"
#include "hone/train/rl/loader/rollout_batching.h"

namespace hone::train::rl {
namespace {

TEST(RolloutGeometry, OneRolloutFeedsOneUpdateUnlessTold) {
  auto plain = make_rollout_batching({.generations = 4}, 2, 4, 2);
  EXPECT_EQ(plain.steps_per_generation, 4);
  EXPECT_EQ(plain.num_completions(), 16);
  EXPECT_EQ(plain.prompts(), 4);
  EXPECT_FALSE(plain.is_off_policy());
  auto twice = make_rollout_batching({.generations = 4, .iterations = 2}, 2, 4, 2);
  EXPECT_TRUE(twice.is_off_policy());
  EXPECT_EQ(twice.batches(), 8);
  auto longer = make_rollout_batching({.generations = 4, .generation_batch_size = 32}, 2, 4, 2);
  EXPECT_EQ(longer.steps_per_generation, 8);
  EXPECT_TRUE(longer.is_off_policy());
  EXPECT_FALSE(make_rollout_batching({.generations = 4, .steps_per_generation = 2}, 2, 4, 2).is_off_policy());
  EXPECT_TRUE(make_rollout_batching({.generations = 4, .steps_per_generation = 3}, 4, 4, 1).is_off_policy());
}

std::string complaint(const RolloutBatchingConfig& config, int64_t batch, int64_t accumulation, int64_t processes) {
  try {
    make_rollout_batching(config, batch, accumulation, processes);
  } catch (const UserError& error) {
    return std::string(error.what()) + " / " + error.hint();
  }
  return "";
}

TEST(RolloutGeometry, SaysWhatDoesNotDivide) {
  EXPECT_NE(complaint({.generations = 8}, 3, 2, 1).find("may be 2, 3, 6"), std::string::npos);
  EXPECT_NE(complaint({.generations = 8}, 1, 1, 1).find("a rollout of 1 completion (`per"), std::string::npos);
  EXPECT_NE(complaint({.generations = 8}, 1, 2, 1).find("set `per_device_train_batch_size` 4 or a multiple"), std::string::npos);
  EXPECT_NE(complaint({.generations = 2, .generation_batch_size = 5}, 2, 1, 1).find("not a multiple"), std::string::npos);
  EXPECT_NE(complaint({.generations = 2, .generation_batch_size = 8, .steps_per_generation = 2}, 2, 1, 1).find("contradict"),
            std::string::npos);
  EXPECT_NE(complaint({.generations = 4, .whole_groups = true}, 2, 2, 2).find("no full groups"), std::string::npos);
  EXPECT_EQ(complaint({.generations = 4, .whole_groups = true}, 8, 1, 2), "");
  EXPECT_NE(complaint({.generations = 1}, 2, 1, 1).find("`num_generations` is 1"), std::string::npos);
}

}  // namespace
}  // namespace hone::train::rl
