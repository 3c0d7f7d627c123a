// Towers with SigLIP's blocks: Gemma 3's, with a fixed image size, and Ovis2.5's, with native resolutions (NaViT).
#include <charconv>
#include <cmath>

#include "hone/model/encoders/vision_fields.h"
#include "hone/model/families/family.h"

namespace hone::model {
namespace {

VisionConfig siglip(const Json& hf, int64_t text_width) {
  auto config = picture_tower(hf, text_width);
  require_value(hf, "hidden_act", "gelu_pytorch_tanh");
  config.activation = VisionActivation::gelu_tanh;
  config.has_patch_bias = true;
  auto& names = config.names;
  names.patch_embed = "embeddings.patch_embedding", names.positions = "embeddings.position_embedding";
  names.blocks = "encoder.layers", names.norm1 = "layer_norm1", names.norm2 = "layer_norm2";
  names.qkv = "", names.q = "self_attn.q_proj", names.k = "self_attn.k_proj", names.v = "self_attn.v_proj";
  names.proj = "self_attn.out_proj";
  return config;
}

// "7|15|23", as in the folders of Ovis.
std::vector<int64_t> blocks_listed_in(const std::string& text) {
  std::vector<int64_t> blocks;
  for (size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find('|', begin), text.size());
    int64_t block = -1;
    const auto [stop, problem] = std::from_chars(text.data() + begin, text.data() + end, block);
    if (problem != std::errc() || stop != text.data() + end || block < 0)
      refuse_tower(fmt::format("\"fullatt_block_indexes\" is \"{}\"; expected numbers with | between them", text));
    blocks.push_back(block);
  }
  return blocks;
}

}  // namespace

VisionConfig siglip_vision(const Json& hf, int64_t text_width, int64_t tokens_per_image) {
  auto config = siglip(hf, text_width);
  config.patch_size = side_of(hf, "patch_size", 14);
  config.rope_theta = 0;
  const int64_t side = side_of(hf, "image_size", 896);
  if (config.patch_size < 1 || side % config.patch_size != 0)
    refuse_tower(fmt::format("image_size is {}; expected a multiple of the patch size, {}", side, config.patch_size));
  config.position_grid = side / config.patch_size;
  config.has_fixed_grid = config.bidirectional_images = true;
  const auto cells = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(tokens_per_image))));
  if (cells * cells != tokens_per_image || config.position_grid % cells != 0)
    refuse_tower(fmt::format("{0} x {0} patches do not divide into {1} tokens; check mm_tokens_per_image", config.position_grid,
                             tokens_per_image));
  config.merge_size = config.position_grid / cells;
  config.merger = MergerKind::mean;
  config.merger_norm_eps = config.norm_eps;
  auto& names = config.names;
  names.tower = "model.vision_tower", names.final_norm = "post_layernorm";
  names.merger = "model.multi_modal_projector";
  names.merger_norm = "mm_soft_emb_norm", names.merger_first = "mm_input_projection_weight";
  check_tower_sizes(config);
  return config;
}

VisionConfig ovis2_5_vision(const Json& hf, int64_t text_width, int64_t visual_words) {
  auto config = siglip(hf, text_width);
  config.patch_size = side_of(hf, "patch_size", 16);
  config.merge_size = size_or(hf, "hidden_stride", 2);
  if (const auto frames = size_or(hf, "temporal_patch_size", 1); frames != 1)
    refuse_tower(fmt::format("\"temporal_patch_size\" is {}; expected 1", frames));
  if (const auto patches = hf.value("num_patches", Json(-1)); patches != -1)
    refuse_tower(fmt::format("\"num_patches\" is {}; expected -1, a convolution", patches.dump()));
  require_value(hf, "use_rope", true);
  require_value(hf, "preserve_original_pe", true);
  config.position_grid = side_of(hf, "image_size", 512) / std::max<int64_t>(config.patch_size, 1);
  config.position_resize = PositionResize::bicubic;
  if (const auto full = hf.value("fullatt_block_indexes", Json()); full.is_string()) {
    config.window_size = size_or(hf, "window_size", 112);
    config.full_attention_blocks = blocks_listed_in(full.get<std::string>());
  }
  constexpr int64_t kMarks = 4, kMostWords = 1 << 24;
  if (visual_words <= kMarks || visual_words > kMostWords)
    refuse_tower(fmt::format("visual_vocab_size is {}; expected more than the {} marks", visual_words, kMarks));
  config.merger = MergerKind::words;
  config.visual_words = visual_words;
  config.merger_size = visual_words - kMarks;
  config.merger_norm_eps = 1e-5;
  auto& names = config.names;
  names.tower = "visual_tokenizer.vit.vision_model", names.vocabulary = "vte";
  names.merger = "visual_tokenizer.head", names.merger_first = "0", names.merger_norm = "1";
  check_tower_sizes(config);
  return config;
}

}  // namespace hone::model
