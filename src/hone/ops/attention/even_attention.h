// Causal attention over sequences of equal length on an NVIDIA GPU, by cuDNN: twice as fast on Hopper as the variable-length
// kernel, forward and backward. cuDNN needs about a second to build an execution plan for a new shape, so it is used for
// lengths that repeat: those of full packs.
#pragma once
#include "hone/ops/attention/attention.h"

namespace hone::ops {

bool supports_even(const Tensor& q, const AttentionMetadata& metadata, const AttentionShape& shape);
Tensor even_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMetadata& metadata,
                      const AttentionShape& shape);

}  // namespace hone::ops
