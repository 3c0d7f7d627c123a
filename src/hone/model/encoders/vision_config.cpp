#include "hone/model/encoders/vision_config.h"

#include <algorithm>

#include "hone/model/families/family.h"

namespace hone::model {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw UserError(ExitCode::bad_checkpoint, "vision_config: " + what); }

void require_activation(const Json& hf, const char* expected) {
  const auto found = hf.value("hidden_act", Json(expected));
  if (found != expected) refuse(fmt::format("\"hidden_act\" is {}; expected \"{}\"", found.dump(), expected));
}

void read_shared(const Json& hf, VisionConfig& config) {
  config.depth = required_size(hf, "depth");
  config.heads = required_size(hf, "num_heads");
  config.patch_size = size_or(hf, "patch_size", 14);
  config.temporal_patch_size = size_or(hf, "temporal_patch_size", 2);
  config.merge_size = size_or(hf, "spatial_merge_size", 2);
  config.in_channels = size_or(hf, "in_channels", size_or(hf, "in_chans", 3));
  if (auto rope = hf.find("rope_parameters"); rope != hf.end() && rope->is_object())
    config.rope_theta = number_or(*rope, "rope_theta", config.rope_theta);
}

void check_sizes(const VisionConfig& config) {
  constexpr int64_t kMostBlocks = 1000, kMostWidth = 1 << 20, kMostPatch = 1024;
  if (config.depth > kMostBlocks) refuse(fmt::format("depth is {}; at most {} blocks are read", config.depth, kMostBlocks));
  for (int64_t width : {config.hidden_size, config.intermediate_size, config.out_hidden_size})
    if (width < 1 || width > kMostWidth) refuse(fmt::format("a width of {} is beyond any model", width));
  for (int64_t size : {config.patch_size, config.temporal_patch_size, config.merge_size})
    if (size < 1 || size > kMostPatch) refuse(fmt::format("a patch size of {} is beyond any model", size));
  if (config.in_channels != 3) refuse(fmt::format("in_channels is {}; expected 3", config.in_channels));
  if (config.hidden_size % config.heads != 0 || config.head_dim() % 4 != 0)
    refuse(fmt::format("{} heads do not divide a width of {} into multiples of 4", config.heads, config.hidden_size));
  if (config.window_size != 0 && config.window_size < config.patch_size * config.merge_size)
    refuse(fmt::format("window_size is {}, less than one cell of {} pixels", config.window_size,
                       config.patch_size * config.merge_size));
}

}  // namespace

bool VisionConfig::has_full_attention(int64_t block) const {
  return window_size == 0 || std::ranges::count(full_attention_blocks, block) > 0;
}

VisionConfig qwen2_vl_vision(const Json& hf) {
  VisionConfig config;
  read_shared(hf, config);
  require_activation(hf, "quick_gelu");
  config.hidden_size = required_size(hf, "embed_dim");
  config.intermediate_size = static_cast<int64_t>(static_cast<double>(config.hidden_size) * number_or(hf, "mlp_ratio", 4));
  config.out_hidden_size = required_size(hf, "hidden_size");
  check_sizes(config);
  return config;
}

VisionConfig qwen2_5_vl_vision(const Json& hf) {
  VisionConfig config;
  read_shared(hf, config);
  require_activation(hf, "silu");
  config.gated_mlp = true;
  config.hidden_size = required_size(hf, "hidden_size");
  config.intermediate_size = required_size(hf, "intermediate_size");
  config.out_hidden_size = required_size(hf, "out_hidden_size");
  config.window_size = size_or(hf, "window_size", 112);
  config.full_attention_blocks =
      hf.contains("fullatt_block_indexes") ? sizes_of(hf, "fullatt_block_indexes") : std::vector<int64_t>{7, 15, 23, 31};
  check_sizes(config);
  return config;
}

}  // namespace hone::model
