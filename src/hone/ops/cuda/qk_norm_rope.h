// RMSNorm of each head followed by rotary embedding, one pass over memory forward and one backward. Not supported without nvcc.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cuda {

// x [T, heads * head_dim], whose rows may be column slices of wider ones; cos as in attention/rope.h; weight [head_dim].
bool supports_norm_rope(const Tensor& x, const Tensor& weight, const Tensor& cos);

struct NormedHeads {
  Tensor y, rstd;  // rstd: float32 [T, heads]
};
NormedHeads norm_rope_heads(const Tensor& x, const Tensor& weight, double eps, const Tensor& cos, const Tensor& sin);

// Writes the gradient of x, and returns that of the weight if it trains.
Tensor norm_rope_heads_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd, const Tensor& cos,
                                const Tensor& sin, const Tensor& dx, bool trains);

}  // namespace hone::ops::cuda
