// A tensor with a shape but no values: a parameter that is stored in another process.
#pragma once
#include "hone/device/tensor.h"

namespace hone::device {

// A single element, expanded to the full shape.
Tensor placeholder(at::IntArrayRef shape, const at::TensorOptions& options);
bool is_placeholder(const Tensor& tensor);

}  // namespace hone::device
