// SwiGLU over contiguous tensors of one shape.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cpu {

void swiglu(const Tensor& gate, const Tensor& up, Tensor& y);
void swiglu_backward(const Tensor& dy, const Tensor& gate, const Tensor& up, Tensor& dgate, Tensor& dup);

}  // namespace hone::ops::cpu
