// y = x / rms(x) * weight, statistics in float32. Shapes: x [..., h], weight [h].
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops {

// The definition: obvious and differentiable; oracle and fallback of the fused path.
Tensor rms_norm_plain(const Tensor& x, const Tensor& weight, double eps);

// One autograd node that saves x and one number per row.
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps);

// x + added and its norm, fused in training and inference, except on an NPU.
struct NormedSum {
  Tensor sum, normed;
};
NormedSum add_rms_norm_plain(const Tensor& x, const Tensor& added, const Tensor& weight, double eps);
NormedSum add_rms_norm(const Tensor& x, const Tensor& added, const Tensor& weight, double eps);

// Norms whose weight is the distance from 1, in float32 throughout: one kernel on a GPU.
Tensor zero_centered_rms_norm(const Tensor& x, const Tensor& weight, double eps);
NormedSum add_zero_centered_rms_norm(const Tensor& x, const Tensor& added, const Tensor& weight, double eps);

}  // namespace hone::ops
