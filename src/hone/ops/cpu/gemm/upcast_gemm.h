// 16-bit products on a processor without instructions for them: operands are upcast to float32 block by block, and each sum is
// rounded once. libtorch's own code is a scalar loop there, two orders of magnitude slower.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cpu {

// [M, K] x [K, N] -> out [M, N] of any floating dtype; either operand may be a transposed view. `bias` [N] may be undefined.
void upcast_gemm(const Tensor& a, const Tensor& b, const Tensor& bias, Tensor out);

// Afterwards libtorch's mm, addmm, bmm and baddbmm on CPU tensors compute this way wherever is_upcast() is true, for all callers:
// tuners, optimizers, autograd's own formulas. Called at start-up on Arm.
void install_upcast_gemm();

}  // namespace hone::ops::cpu
