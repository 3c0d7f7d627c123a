#include "hone/ops/linear_attention/recurrent_step.h"

#include "ops/ops_testing.h"

namespace hone::ops {
namespace {

struct Shape {
  int64_t key_heads, value_heads, key_dim, value_dim, kernel;
};
// Widths that fill vectors, that do not, and that no kernel is for.
const Shape kShapes[] = {{2, 4, 64, 128, 4}, {3, 3, 24, 20, 4}, {1, 2, 7, 5, 4}, {2, 2, 16, 16, 3}, {1, 1, 600, 16, 2}};

// As the engine stores it: the channels of a position are next to each other.
RecurrentState random_state(const Shape& shape, int64_t slots, at::ScalarType dtype) {
  const int64_t channels = 2 * shape.key_heads * shape.key_dim + shape.value_heads * shape.value_dim;
  return {random({slots, shape.kernel - 1, channels}, dtype).transpose(1, 2),
          random({slots, shape.value_heads, shape.key_dim, shape.value_dim})};
}

RecurrentState copy_of(const RecurrentState& state) {
  return {state.conv_sck.transpose(1, 2).clone().transpose(1, 2), state.recurrent_shkv.clone()};
}

// The outputs, the slots that were named in any order, and those that were not.
TEST(RecurrentStep, KernelsComputeWhatTheDefinitionsDo) {
  at::manual_seed(1);
  for (const auto& shape : kShapes)
    for (auto dtype : kTypes) {
      const auto state = random_state(shape, 6, dtype), other = copy_of(state), before = copy_of(state);
      const auto slots_b = at::tensor({4, 0, 3}, at::kLong);
      const int64_t channels = state.conv_sck.size(1);
      const auto wide = random({3, channels + 5}, dtype), x_bc = wide.narrow(1, 2, channels),
                 weight = random({channels, 1, shape.kernel}, dtype);
      EXPECT_LT(relative_difference(causal_conv1d_step(x_bc, weight, state, slots_b),
                                    causal_conv1d_step_plain(x_bc, weight, other, slots_b)),
                tolerance_of(dtype));
      EXPECT_TRUE(at::equal(state.conv_sck, other.conv_sck));
      const auto qk = random({3, 2 * shape.key_heads, shape.key_dim}, dtype);
      const DeltaRuleInput input{qk.narrow(1, 0, shape.key_heads), qk.narrow(1, shape.key_heads, shape.key_heads),
                                 random({3, shape.value_heads, shape.value_dim}, dtype), -random({3, shape.value_heads}).abs(),
                                 random({3, shape.value_heads}, dtype).sigmoid()};
      const auto y = gated_delta_step(input, state, slots_b), wanted = gated_delta_step_plain(input, other, slots_b);
      ASSERT_EQ(y.sizes(), wanted.sizes());
      ASSERT_EQ(y.scalar_type(), dtype);
      EXPECT_LT(relative_difference(y, wanted), tolerance_of(dtype));
      EXPECT_LT(relative_difference(state.recurrent_shkv, other.recurrent_shkv), 2e-5);
      for (int64_t slot : {1, 2, 5}) {
        EXPECT_TRUE(at::equal(state.conv_sck[slot], before.conv_sck[slot]));
        EXPECT_TRUE(at::equal(state.recurrent_shkv[slot], before.recurrent_shkv[slot]));
      }
    }
}

// A row's result has the same bits in any batch and with any number of threads.
TEST(RecurrentStep, ARowDoesNotDependOnTheOthers) {
  at::manual_seed(2);
  const auto& shape = kShapes[0];
  const auto together = random_state(shape, 8, at::kBFloat16), alone = copy_of(together);
  const auto slots_b = at::tensor({5, 1, 7, 0, 2}, at::kLong);
  const DeltaRuleInput input{random({5, 2, 64}, at::kBFloat16), random({5, 2, 64}, at::kBFloat16),
                             random({5, 4, 128}, at::kBFloat16), -random({5, 4}).abs(), random({5, 4}).sigmoid()};
  const auto y = gated_delta_step(input, together, slots_b);
  for (int64_t i = 0; i < 5; ++i) {
    auto row = [&](const Tensor& x) { return x.narrow(0, i, 1); };
    const DeltaRuleInput one{row(input.q_thk), row(input.k_thk), row(input.v_thv), row(input.log_decay_th), row(input.beta_th)};
    EXPECT_TRUE(at::equal(gated_delta_step(one, alone, row(slots_b)), row(y)));
  }
  EXPECT_TRUE(at::equal(together.recurrent_shkv, alone.recurrent_shkv));
}

}  // namespace
}  // namespace hone::ops
