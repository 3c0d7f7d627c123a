// The vision tower of Qwen2-VL and Qwen2.5-VL: rows of patches in, one embedding of the language model for every merged cell out.
#pragma once
#include <vector>

#include "hone/model/encoders/vision_config.h"
#include "hone/model/encoders/vision_layout.h"
#include "hone/model/memory/activation_checkpointing.h"
#include "hone/model/module.h"

namespace hone::model {

struct VisionBlock {
  std::string name;  // "model.visual.blocks.0"
  Norm norm1, norm2;
  Linear qkv, proj;
  Linear gate, up, down;  // without a gate: `up` is fc1 and `down` is fc2

  Module module();
};

struct VisionTower {
  VisionConfig config;
  Linear patch_embed;  // its weight is a convolution's, whose kernel is its stride: [hidden, channels, frames, height, width]
  std::vector<VisionBlock> blocks;
  Norm merger_norm;
  Linear merger_first, merger_last;
  Recompute recompute = Recompute::none;

  Module module();
  // [cells, out_hidden_size]; patches_pr is [patches, row_size] in float32 or the tower's type. Without a trained weight no graph
  // is kept.
  Tensor forward(const Tensor& patches_pr, const std::vector<PatchGrid>& grids, const LinearContext& mode);
};

VisionTower vision_skeleton(const VisionConfig& config);

}  // namespace hone::model
