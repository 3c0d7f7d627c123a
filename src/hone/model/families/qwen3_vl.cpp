// Qwen3-VL, dense and with experts: Qwen3's decoder whose frequencies take turns between three axes, and a tower that adds to the
// first decoder blocks too (deepstack).
#include "hone/model/families/family.h"

namespace hone::model {
namespace {

DecoderConfig with_qwen3_tower(const Json& hf, const Family& text_family) {
  const Json& text = text_config_of(hf);
  auto config = text_family.config(text);
  // transformers gives the text part a default of its own, which the whole model's overrules.
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
  config.experts.norm_topk_prob = true;  // whatever the file says
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
