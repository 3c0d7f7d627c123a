// A vision tower: rows of patches in, one embedding of the language model per merged cell out. Families differ only by
// VisionConfig.
#pragma once
#include <optional>
#include <vector>

#include "hone/model/encoders/vision_config.h"
#include "hone/model/encoders/vision_layout.h"
#include "hone/model/memory/activation_checkpointing.h"
#include "hone/model/module.h"

namespace hone::model {

struct VisionBlock {
  std::string name;  // "model.visual.blocks.0"
  Norm norm1, norm2;
  Linear qkv, q, k, v, proj;  // one product, or three
  std::optional<Norm> q_norm, k_norm;
  Linear gate, up, down;                    // without a gate: `up` is fc1 and `down` is fc2
  std::optional<Parameter> scale1, scale2;  // of what attention and MLP add
  VisionActivation activation = VisionActivation::quick_gelu;

  Module module();
};

// Turns the patches of a cell into one embedding.
struct VisionMerger {
  std::string name;  // "model.visual.merger"
  Norm norm;         // of a patch, or of a whole cell
  Linear first, last;
  std::optional<Parameter> projection;  // [hidden, the language model's width]: of a cell's mean
  MergerKind kind = MergerKind::two_products;

  Module module();
  Tensor operator()(const Tensor& x_ph, int64_t merge_unit, const LinearContext& mode) const;
};

// Outputs of a tower: one row per merged cell, as wide as the language model: [cells, hidden].
struct VisionFeatures {
  Tensor embeddings_nh;
  TensorList deepstack;  // added after the first decoder blocks, one each
};

struct VisionTower {
  VisionConfig config;
  Linear patch_embed;  // its weight is a convolution's, whose kernel is its stride: [hidden, channels, frames, height, width]
  std::optional<Parameter> positions, class_token;
  std::vector<VisionBlock> blocks;
  std::optional<Norm> norm;  // after the blocks
  VisionMerger merger;
  std::optional<Parameter> words;  // the embeddings of visual words
  std::vector<VisionMerger> deepstack;
  Recompute recompute = Recompute::none;

  Module module();
  // patches_pr is [patches, row_size], or one frame of it, in float32 or the tower's dtype. No graph without a trained weight.
  VisionFeatures forward(const Tensor& patches_pr, const std::vector<PatchGrid>& grids, const LinearContext& mode);

 private:
  Tensor embed_patches(Tensor rows_pr, const VisionLayout& layout, const std::vector<PatchGrid>& grids,
                       const LinearContext& mode) const;
  Tensor with_class_tokens(const Tensor& x_ph, const std::vector<PatchGrid>& grids) const;
  Tensor with_positions(const Tensor& x_ph, const std::vector<PatchGrid>& grids) const;
  Tensor with_marks(const Tensor& words_nh, const std::vector<PatchGrid>& grids) const;
};

VisionTower vision_skeleton(const VisionConfig& config);

}  // namespace hone::model
