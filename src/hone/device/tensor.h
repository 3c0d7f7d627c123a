// The one place that includes libtorch's tensors. Everything that touches one includes this file, and it is precompiled.
#pragma once
#include <vector>

#ifdef __CUDACC__  // nvcc precompiles nothing, and needs ten seconds to read all of ATen
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#else
#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/CPUAllocator.h>
#endif

namespace hone {

using at::Tensor;
using TensorList = std::vector<Tensor>;

}  // namespace hone
