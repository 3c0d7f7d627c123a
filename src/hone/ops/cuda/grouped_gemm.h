// Products of experts' rows with a matrix each, on the tensor cores of a Hopper GPU. Not supported without nvcc 12.5.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cuda {

// rows [R, depth], matrices [E, depth, features] with either of the last two contiguous, bfloat16; counts_e: each expert's rows,
// int64 on the device, R in all → [R, features]. The host does not wait for the counts.
bool supports_grouped_gemm(const Tensor& rows, const Tensor& matrices);
Tensor grouped_gemm(const Tensor& rows, const Tensor& matrices, const Tensor& counts_e);

}  // namespace hone::ops::cuda
