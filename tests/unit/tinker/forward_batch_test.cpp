#include "hone/tinker/model/forward_batch.h"

#include <gmock/gmock.h>

#include "tinker/forward_batch_fixture.h"

namespace hone::tinker {
namespace {

using testing::HasSubstr;

TEST_F(ForwardBatchTest, MixedAdaptersEqualEachAlone) {
  const auto alone = results(1 << 20, false);
  for (int64_t batch_tokens : {int64_t{1} << 20, int64_t{40}, int64_t{1}}) {
    const auto mixed = results(batch_tokens, true);
    ASSERT_EQ(mixed.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_NEAR(mixed[i].loss, alone[i].loss, 1e-6 * std::abs(alone[i].loss));
      ASSERT_EQ(mixed[i].logprobs.size(), alone[i].logprobs.size());
      for (size_t j = 0; j < alone[i].logprobs.size(); ++j) EXPECT_NEAR(mixed[i].logprobs[j], alone[i].logprobs[j], 1e-5);
      ASSERT_EQ(mixed[i].weights.size(), alone[i].weights.size());
      expect_same_weights(mixed[i], alone[i]);
    }
  }
}

TEST_F(ForwardBatchTest, AFailureIsOfItsRunAlone) {
  const auto alone = results(1 << 20, false);
  auto all = runs();
  auto broken = request(11, 3);
  broken.data[1].inputs["weights"].values[0] = std::nan("");
  std::vector<ForwardTask> tasks;
  tasks.emplace_back(*model_, *all[0], request(10, 2), kMaxLength);
  tasks.emplace_back(*model_, *all[1], std::move(broken), kMaxLength);
  tasks.emplace_back(*model_, *all[2], request(12, 4), kMaxLength);
  compute(tasks, 1 << 20);
  EXPECT_THAT(tasks[1].error(), HasSubstr("the loss is NaN"));
  EXPECT_TRUE(tasks[1].is_users_fault());
  for (size_t i : {size_t{0}, size_t{2}}) {
    EXPECT_FALSE(tasks[i].failed());
    const auto found = result_of(tasks[i], *all[i]);
    EXPECT_NEAR(found.loss, alone[i].loss, 1e-6 * std::abs(alone[i].loss));
    expect_same_weights(found, alone[i]);
  }
}

TEST_F(ForwardBatchTest, ForwardAloneTakesNoGradient) {
  auto all = runs();
  std::vector<ForwardTask> tasks;
  tasks.emplace_back(*model_, *all[0], request(10, 2, true), kMaxLength);
  tasks.emplace_back(*model_, *all[1], request(11, 2), kMaxLength);
  compute(tasks, 1 << 20);
  EXPECT_FALSE(all[0]->has_gradients());
  EXPECT_TRUE(all[1]->has_gradients());
  EXPECT_EQ(tasks[0].logprobs().size(), 2u);
  EXPECT_FALSE(tasks[0].failed());
}

}  // namespace
}  // namespace hone::tinker
