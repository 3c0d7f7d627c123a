// A step of Adam or AdamW over many tensors on an NVIDIA GPU in few launches, reading and writing each number once. Not supported
// without nvcc.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cuda {

struct AdamStep {
  double rate, beta1, beta2, epsilon, weight_decay;
  bool decoupled;  // decay of the weights themselves, not through the gradient
  int64_t step;    // from 1
};

// Float32 scalars on the device.
struct AdamScalars {
  Tensor coefficient;  // of the gradients; undefined: 1
  Tensor guard;        // where it is not finite nothing changes; undefined: no guard
};

bool supports_adam(const Tensor& parameter);
// Float32 parameters whose gradients and moments are float32 or bfloat16, or all bfloat16; computed in float32.
// `published`, if defined, receives the parameter rounded to bfloat16.
void adam_(const TensorList& parameters, const TensorList& gradients, const TensorList& first, const TensorList& second,
           const TensorList& published, const AdamScalars& scalars, const AdamStep& how);

}  // namespace hone::ops::cuda
