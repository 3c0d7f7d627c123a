// Decoding with gated delta nets: one new token of each of several sequences, in one pass over their slots.
#pragma once
#include "hone/ops/linear_attention/gated_delta_rule.h"

namespace hone::ops {

// x [B, channels], weight [channels, 1, kernel] -> causal_conv1d of one position per slot, [B, channels]. Row i continues slot
// slots_b[i] (int64, on the device of x), whose last inputs are updated in place. The plain form is the oracle of the other.
Tensor causal_conv1d_step_plain(const Tensor& x_bc, const Tensor& weight, const RecurrentState& state, const Tensor& slots_b);
Tensor causal_conv1d_step(const Tensor& x_bc, const Tensor& weight, const RecurrentState& state, const Tensor& slots_b);

// gated_delta_rule of one position per slot -> [B, value_heads, value_dim]; the slots' matrices are updated in place.
Tensor gated_delta_step_plain(const DeltaRuleInput& input, const RecurrentState& state, const Tensor& slots_b);
Tensor gated_delta_step(const DeltaRuleInput& input, const RecurrentState& state, const Tensor& slots_b);

}  // namespace hone::ops
