// The gated delta rule by chunks on NVIDIA GPUs, in bfloat16 on the tensor cores, for heads of 128 (ops/linear_attention has the
// definition). What a backward pass needs is computed again: nothing but the inputs is kept. Not supported without nvcc.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cuda {

// q and k [T, key_heads, 128] before their L2 norms, v [T, value_heads, 128]: columns of wider rows, perhaps. log_decay and beta:
// [T, value_heads].
struct DeltaRuleRows {
  Tensor q, k, v, log_decay, beta;
};
bool supports_delta_rule(const DeltaRuleRows& rows);

// Chunks of at most 64 rows: int32 [N, 2] of each one's first row and size, and int32 [segments + 1] of the segments' first
// chunks.
struct DeltaChunks {
  Tensor chunks_n2, segments_s;
};

// -> [T, value_heads, 128]. With `states` [slots, value_heads, 128, 128], each segment continues its slot (int64 [segments]).
Tensor delta_rule(const DeltaRuleRows& rows, const DeltaChunks& chunks, const Tensor& states = {}, const Tensor& slots_s = {});
// The gradients, of the inputs' types.
DeltaRuleRows delta_rule_backward(const Tensor& dy, const DeltaRuleRows& rows, const DeltaChunks& chunks);

}  // namespace hone::ops::cuda
