// Linear layers with the same input, for training on a GPU: their weights are concatenated, so that one GEMM serves them all,
// forward and backward.
#pragma once
#include <vector>

#include "hone/ops/attention/rope.h"
#include "hone/ops/cuda/training.h"
#include "hone/ops/linear/lora_linear.h"

namespace hone::ops {

struct JointLayer {
  Tensor weight, bias;
  std::vector<LoraWeights> adapters;
};
struct JointLayers {
  std::vector<JointLayer> layers;
  Tensor weight, bias;  // the layers' own, end to end
  Float8Weight float8;  // of that weight, where products with it are of 8-bit floats
};

// False if a layer's update is not supported by rounded_low_rank.h.
bool supports_joint(const Tensor& x, const JointLayers& joint);

// The layers' outputs, as column slices of one tensor. With a rotary table all but the last (queries and keys) are rotated.
TensorList joint_linear_plain(const Tensor& x, const JointLayers& joint, bool training, const RopeTable* rope = nullptr);
TensorList joint_linear(const Tensor& x, const JointLayers& joint, bool training, const RopeTable* rope = nullptr);
// The same for gate and up. Their LoRA updates may be left to the operator that reads the outputs, and are then in `updates`.
TensorList joint_gate_up(const Tensor& x, const JointLayers& joint, bool training, cuda::GateUpdates& updates);

}  // namespace hone::ops
