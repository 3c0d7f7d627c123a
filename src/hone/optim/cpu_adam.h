// AdamW on the CPU, for weights there and for offloaded optimizer state: one pass of vector code, bit-identical to libtorch's
// fused one.
#pragma once
#include "hone/optim/optimizers/adam.h"

namespace hone::optim {

struct AdamUpdate {
  TensorList parameters, gradients, first, second;
  double rate, weight_decay;
  int64_t step;
};

// Whether the vector code rounds like this libtorch, which is tested once, and supports these tensors.
bool supports_cpu_adam(const AdamUpdate& update, const AdamConfig& config);
void cpu_adam(const AdamUpdate& update, const AdamConfig& config);

void libtorch_adam(const AdamUpdate& update, const AdamConfig& config);  // its fused operator, on the CPU and CUDA

}  // namespace hone::optim
