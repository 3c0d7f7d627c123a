// GEMM on Arm. Blocks of both operands are packed into panels that are read sequentially (panel_gemm_kernels.h), and 16-bit
// numbers are widened to float32 on the way: such a product costs the same as float32, and no upcast weight is written to memory.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cpu {

bool has_panel_gemm();

// [M, K] x [K, N] -> out [M, N], each float32, bfloat16 or float16 with any strides. `bias` [N] may be undefined. Sums are
// float32, in an order that depends only on K: not on the number of threads or rows.
void panel_gemm(const Tensor& a, const Tensor& b, const Tensor& bias, Tensor out);

}  // namespace hone::ops::cpu
