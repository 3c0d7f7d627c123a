// RMSNorm of rows on an NVIDIA GPU, with an optional residual addition before it, forward and backward. Not supported without
// nvcc.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cuda {

bool supports_norm(const Tensor& x, const Tensor& weight);

struct NormedRows {
  Tensor sum, y, rstd;  // sum: x + added, undefined where nothing is added; rstd: float32 [T]
};
NormedRows rms_norm_rows(const Tensor& x, const Tensor& added, const Tensor& weight, double eps);

struct NormGradients {
  Tensor x, weight;
};
// dsum, if defined, is the gradient from other uses of the sum; `trains`: whether the weight's gradient is needed.
NormGradients rms_norm_rows_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd,
                                     const Tensor& dsum, bool trains);

}  // namespace hone::ops::cuda
