// The one place that includes libtorch's tensors. Everything that touches one includes this file, and it is precompiled.
#pragma once
#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/CPUAllocator.h>

namespace hone {

using at::Tensor;
using TensorList = std::vector<Tensor>;

}  // namespace hone
