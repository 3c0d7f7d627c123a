// Qwen3.5, dense and MoE, as its folders hold it: the hybrid decoder with frequencies interleaved over three axes, and Qwen3-VL's
// vision tower without deepstack.
#include "hone/model/families/family.h"

namespace hone::model {
namespace {

DecoderConfig with_qwen3_5_tower(const Json& hf, const Family& text_family) {
  auto config = text_family.config(text_config_of(hf));
  config.tie_word_embeddings = flag_or(hf, "tie_word_embeddings", config.tie_word_embeddings);
  config.names.model = "model.language_model";
  config.rope.mrope_section = {11, 11, 10};
  config.rope.mrope_interleaved = true;
  config.carried = {"mtp."};
  Json tower = vision_config_of(hf);
  tower["deepstack_visual_indexes"] = Json::array();  // regardless of the file
  add_tower(config, qwen3_vl_vision(tower));
  config.vision->names.deepstack = {};
  return config;
}

DecoderConfig qwen3_5_vision_config(const Json& hf) { return with_qwen3_5_tower(hf, qwen3_5_text_family()); }
DecoderConfig qwen3_5_moe_vision_config(const Json& hf) { return with_qwen3_5_tower(hf, qwen3_5_moe_text_family()); }

}  // namespace

const Family& qwen3_5_family() {
  static const Family family{"qwen3_5", {"Qwen3_5ForConditionalGeneration"}, qwen3_5_vision_config};
  return family;
}

const Family& qwen3_5_moe_family() {
  static const Family family{"qwen3_5_moe", {"Qwen3_5MoeForConditionalGeneration"}, qwen3_5_moe_vision_config};
  return family;
}

}  // namespace hone::model
