// Rows of RMSNorm, forward and backward.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cpu {

// With `added`, sum = x + added takes the place of x. `rstd` may be undefined.
void rms_norm(const Tensor& x, const Tensor& added, const Tensor& weight, double eps, Tensor& sum, Tensor& y, Tensor& rstd);
// dsum: what the sum's other uses add to dx, if defined. dweight is summed over rows only when defined.
void rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd, const Tensor& dsum,
                       Tensor& dx, Tensor& dweight);

}  // namespace hone::ops::cpu
