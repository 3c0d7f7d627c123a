// The config of a vision tower, in one form for all families.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hone/base/json.h"

namespace hone::model {

// The activation of a block's MLP.
enum class VisionActivation { quick_gelu, swiglu, gelu_tanh, gelu };

// The module names of a tower in a family's files.
struct VisionNames {
  std::string tower = "model.visual";  // prefix of all but mergers, which may be elsewhere
  std::string patch_embed = "patch_embed.proj", positions = "pos_embed", class_token = {}, blocks = "blocks";
  // Inside a block. `qkv` is empty if the three are separate layers.
  std::string norm1 = "norm1", norm2 = "norm2", qkv = "attn.qkv", q = {}, k = {}, v = {}, proj = "attn.proj", q_norm = {},
              k_norm = {}, gate = {}, up = "mlp.fc1", down = "mlp.fc2", scale1 = {}, scale2 = {};
  std::string merger = "model.visual.merger", deepstack = {};                       // whole paths
  std::string merger_norm = "ln_q", merger_first = "mlp.0", merger_last = "mlp.2";  // inside a merger
  std::string final_norm = {};                                                      // after the blocks, where there is one
  std::string vocabulary = {};                                                      // whole path of an embedding of visual words
};

// How a cell becomes an embedding: two products after a norm; the normalized mean of a cell and one product (Gemma 3); or a
// distribution over visual words, whose embeddings are averaged (Ovis).
enum class MergerKind { two_products, mean, words };

// How a table of learned positions is applied to images of another size.
enum class PositionResize { bilinear_corners, bicubic };

struct VisionConfig {
  int64_t depth = 0, hidden_size = 0, intermediate_size = 0, heads = 0;
  int64_t patch_size = 14, temporal_patch_size = 2, merge_size = 2, in_channels = 3;
  int64_t out_hidden_size = 0;                 // the language model's width
  int64_t merger_size = 0;                     // between the merger's two products
  int64_t window_size = 0;                     // in pixels; 0: every block sees whole pictures
  std::vector<int64_t> full_attention_blocks;  // those that do although there are windows
  VisionActivation activation = VisionActivation::quick_gelu;
  bool has_norm_bias = true;  // LayerNorm; else RMSNorm
  double norm_eps = 1e-6, merger_norm_eps = 1e-6;
  bool has_patch_bias = false;
  bool has_qkv_bias = true, has_qk_norm = false;
  double rope_theta = 10000.0;  // 0: positions are learned alone
  int64_t position_grid = 0;    // the side of the table of learned positions, which is a square; 0: there is none
  PositionResize position_resize = PositionResize::bilinear_corners;
  bool has_fixed_grid = false;            // every picture is as large as that table
  bool has_class_token = false;           // in front of the patches of each frame, with a position of its own
  bool norms_cells = false;               // the merger's norm is over all patches of a cell at once; deepstack mergers' always is
  std::vector<int64_t> deepstack_blocks;  // whose outputs the first decoder blocks get too
  MergerKind merger = MergerKind::two_products;
  int64_t visual_words = 0;           // MergerKind::words: with the marks around a picture, which are the last of them
  bool bidirectional_images = false;  // in the language model, the rows of an image attend to each other
  VisionNames names;

  int64_t head_dim() const { return hidden_size / heads; }
  int64_t merge_unit() const { return merge_size * merge_size; }  // patches that become one token
  bool has_marks() const { return merger == MergerKind::words; }  // a row before and one after each picture
  int64_t row_size() const { return in_channels * temporal_patch_size * patch_size * patch_size; }
  bool has_full_attention(int64_t block) const;
  // A parameter of the tower or of its output projection.
  bool is_of_tower(const std::string& name) const;
  bool is_of_merger(const std::string& name) const;
};

// `hf` is vision_config of config.json. Throws UserError(bad_checkpoint) naming the field.
VisionConfig qwen2_vl_vision(const Json& hf);
VisionConfig qwen2_5_vl_vision(const Json& hf);
VisionConfig qwen3_vl_vision(const Json& hf);
VisionConfig siglip_vision(const Json& hf, int64_t text_width, int64_t tokens_per_image);  // Gemma 3
VisionConfig ovis2_5_vision(const Json& hf, int64_t text_width, int64_t visual_words);
VisionConfig internvl_vision(const Json& hf, int64_t text_width);       // transformers' own class
VisionConfig internvl_chat_vision(const Json& hf, int64_t text_width);  // the class that comes with OpenGVLab's folders

}  // namespace hone::model
