// A linear layer for few rows: the weights are read once, in their own type, and widened in registers. A row's result never depends on
// how many others there are.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cpu {

bool is_small(const Tensor& x);  // few rows of a type served here
bool serves_small(const Tensor& x, const Tensor& weight);
Tensor small_matmul(const Tensor& x, const Tensor& weight, const Tensor& bias);  // x W^T + b, as matmul_nt

// Weights of 8 and 4 bits as small_matmul_kernels.h lays them out: codes uint8 [out, in] or [out, in / 2], scales [out],
// groups [out, in / 32, 2].
Tensor small_matmul_int8(const Tensor& x, const Tensor& codes, const Tensor& scales, const Tensor& bias);
Tensor small_matmul_int4(const Tensor& x, const Tensor& codes, const Tensor& groups, const Tensor& bias);

}  // namespace hone::ops::cpu
