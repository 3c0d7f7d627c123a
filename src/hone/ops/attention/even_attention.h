// Causal attention over sequences of one length on an NVIDIA GPU, by cuDNN: twice as fast on a Hopper as the kernel for lengths
// that differ, forward and back. cuDNN plans every shape again, for about a second, so it is used for lengths that repeat:
// those of full packs.
#pragma once
#include "hone/ops/attention/attention.h"

namespace hone::ops {

bool serves_even(const Tensor& q, const AttentionMetadata& plan, const AttentionShape& shape);
Tensor even_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMetadata& plan,
                      const AttentionShape& shape);

}  // namespace hone::ops
