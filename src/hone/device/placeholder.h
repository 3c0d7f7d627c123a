// A tensor that has a shape and no values: what this process knows of a parameter that is elsewhere.
#pragma once
#include "hone/device/tensor.h"

namespace hone::device {

// Memory for one value represents all of them.
Tensor placeholder(at::IntArrayRef shape, const at::TensorOptions& options);
bool is_placeholder(const Tensor& tensor);

}  // namespace hone::device
