// GEMM on Arm. Blocks of both factors are copied into panels that the multipliers read in order (panel_gemm_kernels.h), which is
// where 16-bit numbers become float32: such a product costs what one of float32 does, and no upcast weight reaches memory.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cpu {

bool has_panel_gemm();

// [M, K] x [K, N] -> out [M, N], each of float32, bfloat16 or float16 in any strides. `bias` [N] may be undefined. Sums are
// float32, in an order that depends on K alone: not on the number of threads, nor on how many rows there are.
void panel_gemm(const Tensor& a, const Tensor& b, const Tensor& bias, Tensor out);

}  // namespace hone::ops::cpu
