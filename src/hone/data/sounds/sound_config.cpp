#include "hone/data/sounds/sound_config.h"

namespace hone::data {
namespace {

text::TokenId sound_token(const text::Tokenizer& tokenizer, const char* name) {
  if (auto id = tokenizer.id_of(name)) return *id;
  throw UserError(ExitCode::bad_checkpoint,
                  fmt::format("the tokenizer has no token {}, which a model with an audio tower needs", name),
                  "use the tokenizer files that came with the model");
}

// A field of config.json's audio_config or of preprocessor_config.json.
int64_t sound_number(const Json& fields, const char* name, int64_t otherwise, int64_t most) {
  const auto value = fields.is_object() ? fields.value(name, Json(otherwise)) : Json(otherwise);
  if (!value.is_number_integer() || value.get<int64_t>() < 1 || value.get<int64_t>() > most)
    throw UserError(ExitCode::bad_checkpoint, fmt::format("\"{}\" is {}; expected 1 to {}", name, value.dump(), most));
  return value.get<int64_t>();
}

}  // namespace

std::shared_ptr<const SoundConfig> sound_config(const EncodeConfig& encode, const text::Tokenizer& tokenizer,
                                                const ModelIdentity& model) {
  if (!model.audio.is_object()) return nullptr;
  auto config = std::make_shared<SoundConfig>();
  const bool third = model.model_type == "qwen3_omni_moe";
  config->rule = third ? SoundRule::qwen3_omni : SoundRule::qwen2_5_omni;
  config->mel_bins = sound_number(model.audio, "num_mel_bins", 128, 1024);
  config->most_seconds = sound_number(model.image_processor, "chunk_length", 300, 3600);
  config->sources = encode.pictures.sources;
  config->start = sound_token(tokenizer, third ? "<|audio_start|>" : "<|audio_bos|>");
  config->pad = sound_token(tokenizer, third ? "<|audio_pad|>" : "<|AUDIO|>");
  config->end = sound_token(tokenizer, third ? "<|audio_end|>" : "<|audio_eos|>");
  return config;
}

}  // namespace hone::data
