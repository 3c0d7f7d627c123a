// Ovis2.5: Qwen3's decoder; the cells of an image are mixtures of visual words, with a marker before and after the image.
#include "hone/model/families/family.h"

namespace hone::model {
namespace {

DecoderConfig ovis2_5_config(const Json& hf) {
  const Json& text = text_config_of(hf);
  if (const auto type = text.value("model_type", Json("qwen3")); type != "qwen3")
    throw UserError(ExitCode::bad_checkpoint, fmt::format("the language model inside is {}; expected \"qwen3\"", type.dump()));
  auto config = qwen3_family().config(text);
  config.names.model = "llm.model";
  config.names.head = "llm.lm_head";
  const auto tower = hf.find("vit_config");
  if (tower == hf.end() || !tower->is_object())
    throw UserError(ExitCode::bad_checkpoint, "\"vit_config\" is missing; expected an object");
  add_tower(config, ovis2_5_vision(*tower, config.hidden_size, size_or(hf, "visual_vocab_size", 65536)));
  config.carried = {config.vision->names.tower + ".post_layernorm."};  // computed there but unused
  return config;
}

}  // namespace

const Family& ovis2_5_family() {
  static const Family family{"ovis2_5", {"Ovis2_5"}, ovis2_5_config};
  return family;
}

}  // namespace hone::model
