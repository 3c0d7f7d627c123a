// silu(gate) * up, elementwise.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops {

Tensor swiglu_plain(const Tensor& gate, const Tensor& up);

// One autograd node that saves only gate and up.
Tensor swiglu(const Tensor& gate, const Tensor& up);

// The same for the two halves of each row: [T, 2 w] to [T, w].
Tensor swiglu_halves(const Tensor& both);

// The gradients of both inputs, for nodes that contain a SwiGLU.
std::pair<Tensor, Tensor> swiglu_backward(const Tensor& dy, const Tensor& gate, const Tensor& up);

}  // namespace hone::ops
