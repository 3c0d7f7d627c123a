// InternVL 3 and 3.5 in both formats: transformers' class and the one in OpenGVLab's folders. The decoder is another family's,
// with one-dimensional positions, after InternViT and a projector.
#include "hone/model/families/family.h"

namespace hone::model {
namespace {

const Family& family_inside(const Json& text) {
  const auto type = text.value("model_type", Json());
  for (const auto* family : {&qwen2_family(), &qwen3_family(), &qwen3_moe_family(), &llama_family()})
    if (type == family->name) return *family;
  throw UserError(ExitCode::bad_checkpoint,
                  fmt::format("the language model inside is {}; supported: qwen2, qwen3, qwen3_moe, llama", type.dump()));
}

void require_pixel_shuffle(const Json& hf) {
  if (const double ratio = number_or(hf, "downsample_ratio", 0.5); ratio != 0.5)
    throw UserError(ExitCode::bad_checkpoint, fmt::format("downsample_ratio is {}; expected 0.5", ratio));
}

DecoderConfig internvl_config(const Json& hf) {
  require_pixel_shuffle(hf);
  const Json& text = text_config_of(hf);
  auto config = family_inside(text).config(text);
  config.tie_word_embeddings = flag_or(hf, "tie_word_embeddings", config.tie_word_embeddings);
  config.names.model = "model.language_model";
  for (auto [field, expected] : {std::pair<const char*, Json>{"vision_feature_layer", -1},
                                 {"vision_feature_select_strategy", "default"},
                                 {"projector_hidden_act", "gelu"}})
    if (const auto found = hf.value(field, expected); found != expected)
      throw UserError(ExitCode::bad_checkpoint, fmt::format("\"{}\" is {}; expected {}", field, found.dump(), expected.dump()));
  add_tower(config, internvl_vision(vision_config_of(hf), config.hidden_size));
  return config;
}

DecoderConfig internvl_chat_config(const Json& hf) {
  require_pixel_shuffle(hf);
  const Json& text = text_config_of(hf);
  auto config = family_inside(text).config(text);
  config.names.model = "language_model.model";
  config.names.head = "language_model.lm_head";
  if (const auto version = hf.value("ps_version", Json("v2")); version != "v2")
    throw UserError(ExitCode::bad_checkpoint, fmt::format("\"ps_version\" is {}; expected \"v2\"", version.dump()));
  if (const auto layer = hf.value("select_layer", Json(-1)); layer != -1)
    throw UserError(ExitCode::bad_checkpoint, fmt::format("\"select_layer\" is {}; expected -1", layer.dump()));
  const Json& tower = vision_config_of(hf);
  if (const auto size = tower.value("image_size", Json(448)), forced = hf.value("force_image_size", size); forced != size)
    throw UserError(ExitCode::bad_checkpoint,
                    fmt::format("\"force_image_size\" is {}, and the tower's \"image_size\" {}; expected one size", forced.dump(),
                                size.dump()));
  add_tower(config, internvl_chat_vision(tower, config.hidden_size));
  return config;
}

}  // namespace

const Family& internvl_family() {
  static const Family family{"internvl", {"InternVLForConditionalGeneration"}, internvl_config};
  return family;
}

const Family& internvl_chat_family() {
  static const Family family{"internvl_chat", {"InternVLChatModel"}, internvl_chat_config};
  return family;
}

}  // namespace hone::model
