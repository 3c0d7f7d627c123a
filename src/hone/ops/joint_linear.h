// Linear layers that read one input, for training on a GPU: their weights lie end to end, so that one product serves them all, forward and back.
#pragma once
#include <vector>

#include "hone/ops/lora_linear.h"
#include "hone/ops/rope.h"

namespace hone::ops {

struct JointLayer {
  Tensor weight, bias;
  std::vector<LoraWeights> adapters;
};
struct JointLayers {
  std::vector<JointLayer> layers;
  Tensor weight, bias;  // the layers' own, end to end
};

// False where a layer's update is not of the kind that rounded_low_rank.h computes.
bool serves_joint(const Tensor& x, const JointLayers& joint);

// The layers' answers, column slices of one tensor. With a table all but the last are rotated: queries and keys, not values.
TensorList joint_linear_plain(const Tensor& x, const JointLayers& joint, bool training, const RopeTable* rope = nullptr);
TensorList joint_linear(const Tensor& x, const JointLayers& joint, bool training, const RopeTable* rope = nullptr);

}  // namespace hone::ops
