// Rotation, activation and thin products on NVIDIA GPUs, one kernel each, without a gradient. Without nvcc nothing is served
// here.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cuda {

// True for contiguous rows on a GPU when no gradient is being recorded.
bool supports_fused(const Tensor& x);

Tensor rope(const Tensor& x, const Tensor& cos, const Tensor& sin);  // as ops::rope
Tensor swiglu(const Tensor& gate, const Tensor& up);                 // rows of 2-D tensors, which may be halves of wider ones

// x W^T + b for very few rows: bound by reading the weights.
bool supports_skinny(const Tensor& x, const Tensor& weight);
Tensor skinny_gemm(const Tensor& x, const Tensor& weight, const Tensor& bias);

}  // namespace hone::ops::cuda
