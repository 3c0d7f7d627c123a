// A vision tower's part of config.json, in one form for Qwen2-VL and Qwen2.5-VL.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hone/base/json.h"

namespace hone::model {

struct VisionConfig {
  int64_t depth = 0, hidden_size = 0, intermediate_size = 0, heads = 0;
  int64_t patch_size = 14, temporal_patch_size = 2, merge_size = 2, in_channels = 3;
  int64_t out_hidden_size = 0;                 // the language model's width
  int64_t window_size = 0;                     // in pixels; 0: every block sees whole pictures
  std::vector<int64_t> full_attention_blocks;  // those that do although there are windows
  bool gated_mlp = false;                      // Qwen2.5-VL: SwiGLU and RMSNorm; else quick GELU and LayerNorm
  double rope_theta = 10000.0;
  std::string name = "model.visual";

  int64_t head_dim() const { return hidden_size / heads; }
  int64_t merge_unit() const { return merge_size * merge_size; }  // patches that become one token
  int64_t row_size() const { return in_channels * temporal_patch_size * patch_size * patch_size; }
  bool has_full_attention(int64_t block) const;
};

// `hf` is vision_config of config.json. Throws UserError(bad_checkpoint) naming the field.
VisionConfig qwen2_vl_vision(const Json& hf);
VisionConfig qwen2_5_vl_vision(const Json& hf);

}  // namespace hone::model
