// Rows of RMSNorm, forward and backward.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cpu {

void rms_norm(const Tensor& x, const Tensor& weight, double eps, Tensor& y, Tensor& rstd);
// dweight is summed over rows only when defined.
void rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd, Tensor& dx, Tensor& dweight);

}  // namespace hone::ops::cpu
