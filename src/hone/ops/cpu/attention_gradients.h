// Inputs and outputs of the backward passes of panel_attention.h and short_attention.h.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cpu {

// Tensors of packed sequences, contiguous: q, out, dout, dq [T, heads * d], k, v, dk, dv [T, kv_heads * d]. `logsumexp` has
// [heads, length] of each sequence, one after the other.
struct AttentionGradients {
  const Tensor &q, &k, &v, &out, &dout, &logsumexp, &dq, &dk, &dv;
};

}  // namespace hone::ops::cpu
