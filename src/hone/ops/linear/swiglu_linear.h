// The second half of a gated MLP: a linear layer with low-rank updates on silu(gate) * up.
#pragma once
#include "hone/ops/cuda/training.h"
#include "hone/ops/linear/lora_linear.h"

namespace hone::ops {

Tensor swiglu_linear_plain(const Tensor& gate, const Tensor& up, const Tensor& weight, const Tensor& bias,
                           const std::vector<LoraWeights>& adapters, bool training);

// One autograd node: the product, as wide as the MLP, is recomputed in the backward pass instead of being saved. `updates` are
// pending updates of gate and up (joint_linear.h).
Tensor swiglu_linear(const Tensor& gate, const Tensor& up, const Tensor& weight, const Tensor& bias,
                     const std::vector<LoraWeights>& adapters, bool training, const cuda::GateUpdates& updates = {},
                     const Float8Weight& float8 = {});
// The same if only gradients are needed: computing the output's values is skipped.
Tensor swiglu_linear_unread(const Tensor& gate, const Tensor& up, const Tensor& weight, const Tensor& bias,
                            const std::vector<LoraWeights>& adapters, bool training, const cuda::GateUpdates& updates = {},
                            const Float8Weight& float8 = {});

}  // namespace hone::ops
