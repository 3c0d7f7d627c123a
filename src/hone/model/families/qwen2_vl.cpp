// Qwen2-VL and Qwen2.5-VL: Qwen2's decoder with three-axis positions (M-RoPE), and a vision tower.
#include "hone/model/families/family.h"

namespace hone::model {
namespace {

DecoderConfig with_tower(const Json& hf, VisionConfig (*read_tower)(const Json&)) {
  auto config = qwen2_family().config(text_config_of(hf));
  config.tie_word_embeddings |= flag_or(hf, "tie_word_embeddings", false);
  config.names.model = "model.language_model";
  config.rope.mrope_section = {16, 24, 24};
  add_tower(config, read_tower(vision_config_of(hf)));
  return config;
}

DecoderConfig qwen2_vl_config(const Json& hf) { return with_tower(hf, qwen2_vl_vision); }
DecoderConfig qwen2_5_vl_config(const Json& hf) { return with_tower(hf, qwen2_5_vl_vision); }

}  // namespace

const Json& vision_config_of(const Json& hf) {
  const auto tower = hf.find("vision_config");
  if (tower == hf.end() || !tower->is_object())
    throw UserError(ExitCode::bad_checkpoint, "\"vision_config\" is missing; expected an object");
  return *tower;
}

void add_tower(DecoderConfig& config, VisionConfig tower) {
  if (tower.out_hidden_size != config.hidden_size)
    throw UserError(ExitCode::bad_checkpoint,
                    fmt::format("the vision tower gives embeddings of {}, and the language model's have {}",
                                tower.out_hidden_size, config.hidden_size));
  if (static_cast<int64_t>(tower.deepstack_blocks.size()) > config.layers)
    throw UserError(ExitCode::bad_checkpoint, fmt::format("{} blocks of the vision tower add to {} of the language model",
                                                          tower.deepstack_blocks.size(), config.layers));
  config.vision = std::move(tower);
}

const Family& qwen2_vl_family() {
  static const Family family{"qwen2_vl", {"Qwen2VLForConditionalGeneration"}, qwen2_vl_config};
  return family;
}

const Family& qwen2_5_vl_family() {
  static const Family family{"qwen2_5_vl", {"Qwen2_5_VLForConditionalGeneration"}, qwen2_5_vl_config};
  return family;
}

}  // namespace hone::model
