// Qwen2-VL and Qwen2.5-VL: Qwen2's decoder with positions of three axes, and a vision tower in front of it.
#include "hone/model/families/family.h"

namespace hone::model {
namespace {

DecoderConfig with_tower(const Json& hf, VisionConfig (*read_tower)(const Json&)) {
  const auto nested = hf.find("text_config"), tower = hf.find("vision_config");
  if (tower == hf.end() || !tower->is_object())
    throw UserError(ExitCode::bad_checkpoint, "\"vision_config\" is missing; expected an object");
  const bool has_text = nested != hf.end() && nested->is_object();
  auto config = qwen2_family().config(has_text ? *nested : hf);
  config.tie_word_embeddings |= flag_or(hf, "tie_word_embeddings", false);
  config.names.model = "model.language_model";
  config.vision = read_tower(*tower);
  if (config.vision->out_hidden_size != config.hidden_size)
    throw UserError(ExitCode::bad_checkpoint,
                    fmt::format("the vision tower gives embeddings of {}, and the language model's have {}",
                                config.vision->out_hidden_size, config.hidden_size));
  return config;
}

DecoderConfig qwen2_vl_config(const Json& hf) { return with_tower(hf, qwen2_vl_vision); }
DecoderConfig qwen2_5_vl_config(const Json& hf) { return with_tower(hf, qwen2_5_vl_vision); }

}  // namespace

const Family& qwen2_vl_family() {
  static const Family family{"qwen2_vl", {"Qwen2VLForConditionalGeneration"}, qwen2_vl_config};
  return family;
}

const Family& qwen2_5_vl_family() {
  static const Family family{"qwen2_5_vl", {"Qwen2_5_VLForConditionalGeneration"}, qwen2_5_vl_config};
  return family;
}

}  // namespace hone::model
