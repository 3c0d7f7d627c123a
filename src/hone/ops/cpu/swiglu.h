// SwiGLU over tensors of one shape; contiguous, except that `gate` and `up` may be parts of longer rows in the forward pass.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cpu {

bool supports_halves(const Tensor& gate, const Tensor& up);
void swiglu(const Tensor& gate, const Tensor& up, Tensor& y);
void swiglu_halves(const Tensor& both, Tensor& y);  // of each row of [T, 2 w]
void swiglu_backward(const Tensor& dy, const Tensor& gate, const Tensor& up, Tensor& dgate, Tensor& dup);

}  // namespace hone::ops::cpu
