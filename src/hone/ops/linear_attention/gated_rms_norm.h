// RMSNorm of each value head of a gated delta net, times SiLU of its gate.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops {

// x and z [T, heads, width], weight [width] -> the shape and type of x.
Tensor gated_rms_norm_plain(const Tensor& x_thv, const Tensor& z_thv, const Tensor& weight, double eps);
Tensor gated_rms_norm(const Tensor& x_thv, const Tensor& z_thv, const Tensor& weight, double eps);

}  // namespace hone::ops
