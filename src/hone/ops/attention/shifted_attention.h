// LongLoRA's shifted sparse attention: every sequence is split into four groups with attention inside each; for half of the heads
// the groups are shifted by half a group, so that information flows between groups. A quarter of the cost of full attention, for
// training only.
#pragma once
#include "hone/ops/attention/attention.h"

namespace hone::ops {

struct ShiftedAttentionMetadata {
  AttentionMetadata straight, shifted;  // groups of the one half of the heads, and of the other in its order
  Tensor order, back;                   // int64 [T]: positions in shifted order, and where each of them is in it
};
ShiftedAttentionMetadata shifted_attention_metadata(const CuSeqlens& segments, at::Device device);

// Shapes as of `attention`.
Tensor shifted_attention(const Tensor& q, const Tensor& k, const Tensor& v, const ShiftedAttentionMetadata& metadata,
                         const AttentionShape& shape);

}  // namespace hone::ops
