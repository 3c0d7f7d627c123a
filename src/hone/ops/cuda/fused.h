// Rotary embedding and activation on NVIDIA GPUs, one kernel each, without gradient. Not supported without nvcc.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cuda {

// True for contiguous rows on a GPU when no gradient is being recorded.
bool supports_fused(const Tensor& x);

Tensor rope(const Tensor& x, const Tensor& cos, const Tensor& sin);  // as ops::rope
Tensor swiglu(const Tensor& gate, const Tensor& up);                 // rows of 2-D tensors, which may be halves of wider ones

}  // namespace hone::ops::cuda
