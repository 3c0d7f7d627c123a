#include "hone/model/encoders/vision_config.h"

#include <algorithm>
#include <cmath>

#include "hone/model/encoders/vision_fields.h"
#include "hone/model/families/family.h"

namespace hone::model {

void refuse_tower(const std::string& what) { throw UserError(ExitCode::bad_checkpoint, "vision_config: " + what); }

void require_value(const Json& hf, const char* field, const Json& expected) {
  const auto found = hf.value(field, expected);
  if (found != expected) refuse_tower(fmt::format("\"{}\" is {}; expected {}", field, found.dump(), expected.dump()));
}

static void read_shared(const Json& hf, VisionConfig& config) {
  config.depth = required_size(hf, "depth");
  config.heads = required_size(hf, "num_heads");
  config.patch_size = size_or(hf, "patch_size", config.patch_size);
  config.temporal_patch_size = size_or(hf, "temporal_patch_size", 2);
  config.merge_size = size_or(hf, "spatial_merge_size", 2);
  config.in_channels = size_or(hf, "in_channels", size_or(hf, "in_chans", 3));
  if (auto rope = hf.find("rope_parameters"); rope != hf.end() && rope->is_object())
    config.rope_theta = number_or(*rope, "rope_theta", config.rope_theta);
}

void check_tower_sizes(const VisionConfig& config) {
  constexpr int64_t kMostBlocks = 1000, kMostWidth = 1 << 20, kMostPatch = 1024;
  if (config.depth > kMostBlocks) refuse_tower(fmt::format("depth is {}; at most {} blocks are read", config.depth, kMostBlocks));
  for (int64_t width : {config.hidden_size, config.intermediate_size, config.out_hidden_size})
    if (width < 1 || width > kMostWidth) refuse_tower(fmt::format("a width of {} is beyond any model", width));
  for (int64_t size : {config.patch_size, config.temporal_patch_size, config.merge_size})
    if (size < 1 || size > kMostPatch) refuse_tower(fmt::format("a patch size of {} is beyond any model", size));
  if (config.in_channels != 3) refuse_tower(fmt::format("in_channels is {}; expected 3", config.in_channels));
  if (config.hidden_size % config.heads != 0 || config.head_dim() % 4 != 0)
    refuse_tower(fmt::format("{} heads do not divide a width of {} into multiples of 4", config.heads, config.hidden_size));
  if (config.window_size != 0 && config.window_size < config.patch_size * config.merge_size)
    refuse_tower(fmt::format("window_size is {}, less than one cell of {} pixels", config.window_size,
                             config.patch_size * config.merge_size));
  if (config.position_grid > kMostPatch)
    refuse_tower(fmt::format("{0} x {0} positions are beyond any model", config.position_grid));
  if (!std::ranges::all_of(config.deepstack_blocks, [&](int64_t block) { return block >= 0 && block < config.depth; }) ||
      std::ranges::adjacent_find(config.deepstack_blocks, std::greater_equal<>()) != config.deepstack_blocks.end())
    refuse_tower(fmt::format("deepstack_visual_indexes is [{}]; expected ascending numbers of its {} blocks",
                             fmt::join(config.deepstack_blocks, ", "), config.depth));
}

static int64_t side_of_square(int64_t count, const char* field) {
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(count))));
  if (side * side != count) refuse_tower(fmt::format("\"{}\" is {}; expected a square", field, count));
  return side;
}

int64_t side_of(const Json& hf, const char* field, int64_t otherwise) {
  const auto found = hf.find(field);
  if (found == hf.end() || !found->is_array()) return size_or(hf, field, otherwise);
  const auto sides = sizes_of(hf, field);
  if (sides.size() != 2 || sides[0] != sides[1])
    refuse_tower(fmt::format("\"{}\" is {}; expected equal sides", field, found->dump()));
  return sides[0];
}

VisionConfig picture_tower(const Json& hf, int64_t text_width) {
  VisionConfig config;
  config.depth = required_size(hf, "num_hidden_layers");
  config.heads = required_size(hf, "num_attention_heads");
  config.hidden_size = required_size(hf, "hidden_size");
  config.intermediate_size = required_size(hf, "intermediate_size");
  config.in_channels = size_or(hf, "num_channels", 3);
  config.temporal_patch_size = 1;
  config.out_hidden_size = text_width;
  config.norm_eps = number_or(hf, "layer_norm_eps", 1e-6);
  return config;
}

// InternViT reads tiles of one size; its merger is the pixel shuffle followed by the projector.
static VisionConfig intern_vit(const Json& hf, int64_t text_width) {
  auto config = picture_tower(hf, text_width);
  config.patch_size = side_of(hf, "patch_size", 14);
  config.merger_size = text_width;
  require_value(hf, "hidden_act", "gelu");
  config.activation = VisionActivation::gelu;
  config.merger_norm_eps = 1e-5;
  const auto norm = hf.value("norm_type", Json("layer_norm"));
  if (norm != "layer_norm" && norm != "rms_norm")
    refuse_tower(fmt::format("\"norm_type\" is {}; expected \"layer_norm\" or \"rms_norm\"", norm.dump()));
  config.has_norm_bias = norm == "layer_norm";
  config.has_patch_bias = config.has_class_token = config.norms_cells = true;
  config.rope_theta = 0;
  const int64_t side = side_of(hf, "image_size", 448);
  if (config.patch_size < 1 || side % (2 * config.patch_size) != 0)
    refuse_tower(fmt::format("image_size is {}; expected a multiple of two patches of {}", side, config.patch_size));
  config.position_grid = side / config.patch_size;
  config.has_fixed_grid = true;
  return config;
}

bool VisionConfig::has_full_attention(int64_t block) const {
  return window_size == 0 || std::ranges::count(full_attention_blocks, block) > 0;
}

bool VisionConfig::is_of_merger(const std::string& name) const {
  return name.starts_with(names.merger + ".") || (!names.deepstack.empty() && name.starts_with(names.deepstack + "."));
}

bool VisionConfig::is_of_tower(const std::string& name) const {
  return name.starts_with(names.tower + ".") || is_of_merger(name) ||
         (!names.vocabulary.empty() && name.starts_with(names.vocabulary + "."));
}

VisionConfig qwen2_vl_vision(const Json& hf) {
  VisionConfig config;
  read_shared(hf, config);
  require_value(hf, "hidden_act", "quick_gelu");
  config.hidden_size = required_size(hf, "embed_dim");
  config.intermediate_size = static_cast<int64_t>(static_cast<double>(config.hidden_size) * number_or(hf, "mlp_ratio", 4));
  config.out_hidden_size = required_size(hf, "hidden_size");
  config.merger_size = config.merge_unit() * config.hidden_size;
  check_tower_sizes(config);
  return config;
}

VisionConfig qwen2_5_vl_vision(const Json& hf) {
  VisionConfig config;
  read_shared(hf, config);
  require_value(hf, "hidden_act", "silu");
  config.activation = VisionActivation::swiglu;
  config.has_norm_bias = false;
  config.names.gate = "mlp.gate_proj", config.names.up = "mlp.up_proj", config.names.down = "mlp.down_proj";
  config.hidden_size = required_size(hf, "hidden_size");
  config.intermediate_size = required_size(hf, "intermediate_size");
  config.out_hidden_size = required_size(hf, "out_hidden_size");
  config.merger_size = config.merge_unit() * config.hidden_size;
  config.window_size = size_or(hf, "window_size", 112);
  config.full_attention_blocks =
      hf.contains("fullatt_block_indexes") ? sizes_of(hf, "fullatt_block_indexes") : std::vector<int64_t>{7, 15, 23, 31};
  check_tower_sizes(config);
  return config;
}

VisionConfig qwen3_vl_vision(const Json& hf) {
  VisionConfig config;
  config.patch_size = 16;
  read_shared(hf, config);
  require_value(hf, "hidden_act", "gelu_pytorch_tanh");
  config.activation = VisionActivation::gelu_tanh;
  config.has_patch_bias = true;
  auto& names = config.names;
  names.up = "mlp.linear_fc1", names.down = "mlp.linear_fc2";
  names.merger_norm = "norm", names.merger_first = "linear_fc1", names.merger_last = "linear_fc2";
  names.deepstack = names.tower + ".deepstack_merger_list";
  config.hidden_size = required_size(hf, "hidden_size");
  config.intermediate_size = required_size(hf, "intermediate_size");
  config.out_hidden_size = required_size(hf, "out_hidden_size");
  config.merger_size = config.merge_unit() * config.hidden_size;
  config.position_grid = side_of_square(size_or(hf, "num_position_embeddings", 2304), "num_position_embeddings");
  config.deepstack_blocks =
      hf.contains("deepstack_visual_indexes") ? sizes_of(hf, "deepstack_visual_indexes") : std::vector<int64_t>{8, 16, 24};
  check_tower_sizes(config);
  return config;
}

VisionConfig internvl_vision(const Json& hf, int64_t text_width) {
  auto config = intern_vit(hf, text_width);
  require_value(hf, "use_mean_pooling", true);  // else a norm follows the last block
  require_value(hf, "use_mask_token", false);
  require_value(hf, "use_absolute_position_embeddings", true);
  config.has_qkv_bias = flag_or(hf, "attention_bias", false);
  config.has_qk_norm = flag_or(hf, "use_qk_norm", false);
  auto& names = config.names;
  names.tower = "model.vision_tower";
  names.patch_embed = "embeddings.patch_embeddings.projection";
  names.class_token = "embeddings.cls_token", names.positions = "embeddings.position_embeddings";
  names.blocks = "encoder.layer";
  names.norm1 = "layernorm_before", names.norm2 = "layernorm_after";
  names.qkv = "", names.q = "attention.q_proj", names.k = "attention.k_proj", names.v = "attention.v_proj";
  names.proj = "attention.projection_layer", names.q_norm = "attention.q_norm", names.k_norm = "attention.k_norm";
  names.scale1 = "lambda_1", names.scale2 = "lambda_2";
  names.merger = "model.multi_modal_projector";
  names.merger_norm = "layer_norm", names.merger_first = "linear_1", names.merger_last = "linear_2";
  check_tower_sizes(config);
  return config;
}

VisionConfig internvl_chat_vision(const Json& hf, int64_t text_width) {
  auto config = intern_vit(hf, text_width);
  config.has_qkv_bias = flag_or(hf, "qkv_bias", true);
  config.has_qk_norm = flag_or(hf, "qk_normalization", false);
  auto& names = config.names;
  names.tower = "vision_model";
  names.patch_embed = "embeddings.patch_embedding";
  names.class_token = "embeddings.class_embedding", names.positions = "embeddings.position_embedding";
  names.blocks = "encoder.layers";
  names.q_norm = "attn.q_norm", names.k_norm = "attn.k_norm";
  names.scale1 = "ls1", names.scale2 = "ls2";
  names.merger = "mlp1", names.merger_norm = "0", names.merger_first = "1", names.merger_last = "3";
  check_tower_sizes(config);
  return config;
}

}  // namespace hone::model
