// The norm of many tensors on an NVIDIA GPU in two launches, reading each number once. Not supported without nvcc.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cuda {

// Tensors of one device, float32 or 16-bit.
bool supports_norm_of_all(const TensorList& tensors);
// The 2-norm of all their elements, a float32 scalar. The order of additions is fixed.
Tensor norm_of_all(const TensorList& tensors);

}  // namespace hone::ops::cuda
