// Linear layers of a batch of decodes on NVIDIA GPUs: a product of so few rows is over in microseconds, so what stands before and
// behind it in a decoder block is part of its kernel, as in thin_linear.h. Without nvcc nothing is served here.
#pragma once
#include "hone/ops/cuda/thin_linear.h"

namespace hone::ops::cuda {

// Of as many rows as `rows` has, in its type. Large layers are left to cuBLAS, which fills the device with them.
bool serves_batch(const Tensor& rows, const Tensor& weight);
Tensor batch_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const ThinFusion& with = {});

}  // namespace hone::ops::cuda
