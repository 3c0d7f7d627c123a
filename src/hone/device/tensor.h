// The one place that includes libtorch. Everything that touches a tensor includes this file, and it is precompiled.
#pragma once
#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/generated/variable_factories.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

namespace hone {

using at::Tensor;
using TensorList = std::vector<Tensor>;

}  // namespace hone
