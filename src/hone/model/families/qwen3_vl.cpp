// Qwen3-VL, dense and MoE: Qwen3's decoder with frequencies interleaved over three axes, and a vision tower that also adds to the
// first decoder blocks (deepstack).
#include "hone/model/families/family.h"

namespace hone::model {
namespace {

DecoderConfig with_qwen3_tower(const Json& hf, const Family& text_family) {
  const Json& text = text_config_of(hf);
  auto config = text_family.config(text);
  // transformers gives the text config a default, which the full model's value overrides.
  config.tie_word_embeddings = flag_or(hf, "tie_word_embeddings", config.tie_word_embeddings);
  config.names.model = "model.language_model";
  config.rope.theta = 500000;
  config.rope.mrope_section = {24, 20, 20};
  config.rope.mrope_interleaved = true;
  config.sliding_windows.assign(config.sliding_windows.size(), 0);
  add_tower(config, qwen3_vl_vision(vision_config_of(hf)));
  return config;
}

DecoderConfig qwen3_vl_config(const Json& hf) { return with_qwen3_tower(hf, qwen3_family()); }

DecoderConfig qwen3_vl_moe_config(const Json& hf) {
  auto config = with_qwen3_tower(hf, qwen3_moe_family());
  config.experts.norm_topk_prob = true;  // regardless of the file
  config.experts.stored_as = io::kTransposedNames;
  return config;
}

}  // namespace

const Family& qwen3_vl_family() {
  static const Family family{"qwen3_vl", {"Qwen3VLForConditionalGeneration"}, qwen3_vl_config};
  return family;
}

const Family& qwen3_vl_moe_family() {
  static const Family family{"qwen3_vl_moe", {"Qwen3VLMoeForConditionalGeneration"}, qwen3_vl_moe_config};
  return family;
}

}  // namespace hone::model
