// Causal attention with bidirectional blocks: the images of Gemma 3.
#pragma once
#include "hone/ops/attention/attention.h"

namespace hone::ops {

// `metadata` with its blocks: rows outside of them are causal.
Tensor attention_with_blocks(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMetadata& metadata,
                             const AttentionShape& shape);

// The rows of one block, which are the last of k and v; these start at the segment's first row.
Tensor attend_block(const Tensor& q, Tensor k, Tensor v, const AttentionShape& shape);

}  // namespace hone::ops
