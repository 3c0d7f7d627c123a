// The recurrence of a gated delta net over the sequences of a packed row. Each value head has a state [key_dim, value_dim]. At
// each position it is scaled by exp(log_decay), the value that the key finds in it is moved towards the position's own value by
// beta, and the query reads it. All of it is computed in float32.
#pragma once
#include "hone/ops/linear_attention/linear_attention_metadata.h"
#include "hone/ops/linear_attention/recurrent_state.h"

namespace hone::ops {

// q and k [T, key_heads, key_dim] before their L2 norms, v [T, value_heads, value_dim], log_decay (float32, at most 0) and beta
// [T, value_heads]. Consecutive value heads share a key head.
struct DeltaRuleInput {
  Tensor q_thk, k_thk, v_thv, log_decay_th, beta_th;

  DeltaRuleInput rows(int64_t begin, int64_t count) const;
};

// One position of each of S sequences: the definition. -> [S, value_heads, value_dim] in float32. The states [S, value_heads,
// key_dim, value_dim] become those after it. Differentiable.
Tensor gated_delta_position(const DeltaRuleInput& position, Tensor& states_shkv);

// Position by position, differentiable. -> [T, value_heads, value_dim] of v's type.
Tensor gated_delta_rule_plain(const DeltaRuleInput& input, const CuSeqlens& segments);
// In chunks of positions, whose inner part is batched matrix products. With `states`, for inference, each segment continues its
// slot's state, which is updated in place; without, every segment starts from zero, and the result is differentiable.
Tensor gated_delta_rule(const DeltaRuleInput& input, const LinearAttentionMetadata& metadata, const StateSlots* states = nullptr);

}  // namespace hone::ops
