// A linear layer for few rows: the weights are read once, in their own dtype, and widened in registers. A row's result does not
// depend on the number of rows.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cpu {

bool is_skinny(const Tensor& x);  // few rows of a type served here
bool supports_skinny(const Tensor& x, const Tensor& weight);
Tensor skinny_gemm(const Tensor& x, const Tensor& weight, const Tensor& bias);  // x W^T + b, as matmul_nt

}  // namespace hone::ops::cpu
