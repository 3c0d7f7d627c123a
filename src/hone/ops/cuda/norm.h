// RMSNorm of rows on an NVIDIA GPU, with an optional residual addition before it, forward and backward. Not supported without
// nvcc.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cuda {

bool supports_norm(const Tensor& x, const Tensor& weight);

// `offset` is added to every element of the weight.
struct NormedRows {
  Tensor sum, y, rstd;  // sum: x + added, undefined where nothing is added; rstd: float32 [T]
};
NormedRows rms_norm_rows(const Tensor& x, const Tensor& added, const Tensor& weight, double eps, double offset);

struct NormGradients {
  Tensor x, weight;
};
// dsum, if defined, is the gradient from other uses of the sum; `trains`: whether the weight's gradient is needed.
NormGradients rms_norm_rows_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd,
                                     const Tensor& dsum, double offset, bool trains);

}  // namespace hone::ops::cuda
