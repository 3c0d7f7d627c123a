// LongLoRA's shifted sparse attention: every sequence falls into four groups that attend within themselves; for half of the heads
// they are shifted by half a group, so that what is in two groups still meets. Quarter the cost of full attention, for training
// only.
#pragma once
#include "hone/ops/attention/attention.h"

namespace hone::ops {

struct ShiftedAttentionMetadata {
  AttentionMetadata straight, shifted;  // groups of the one half of the heads, and of the other in its order
  Tensor order, back;                   // int64 [T]: positions in shifted order, and where each of them is in it
};
ShiftedAttentionMetadata shifted_plan(const CuSeqlens& segments, at::Device device);

// Shapes as of `attention`.
Tensor shifted_attention(const Tensor& q, const Tensor& k, const Tensor& v, const ShiftedAttentionMetadata& plan,
                         const AttentionShape& shape);

}  // namespace hone::ops
