// The thinkers of Qwen2.5-Omni and Qwen3-Omni: the decoders of Qwen2.5-VL and Qwen3-VL-MoE, a vision tower and an audio tower.
// The talker (talker, token2wav, code2wav) is kept unchanged.
#include "hone/model/families/family.h"

namespace hone::model {
namespace {

const Json& part_config(const Json& hf, const char* name) {
  const auto part = hf.find(name);
  if (part == hf.end() || !part->is_object())
    throw UserError(ExitCode::bad_checkpoint, fmt::format("\"{}\" is missing; expected an object", name));
  return *part;
}

VisionConfig named_for_omni(VisionConfig tower) {
  tower.names.tower = "thinker.visual";
  tower.names.merger = "thinker.visual.merger";
  return tower;
}

void complete_thinker(DecoderConfig& config, const Json& thinker, VisionConfig vision, AudioConfig audio) {
  // transformers gives the text config a default, which the thinker's value overrides.
  config.tie_word_embeddings = flag_or(thinker, "tie_word_embeddings", false);
  config.names.model = "thinker.model";
  config.names.head = "thinker.lm_head";
  config.sliding_windows.assign(config.sliding_windows.size(), 0);
  config.carried = {"talker.", "token2wav.", "code2wav.", audio.tower + ".audio_bos_eos_token."};
  add_tower(config, named_for_omni(std::move(vision)));
  if (audio.out_hidden_size != config.hidden_size)
    throw UserError(ExitCode::bad_checkpoint,
                    fmt::format("the audio tower gives embeddings of {}, and the language model's have {}", audio.out_hidden_size,
                                config.hidden_size));
  config.audio = std::move(audio);
}

DecoderConfig qwen2_5_omni_config(const Json& hf) {
  const Json& thinker = part_config(hf, "thinker_config");
  auto config = qwen2_family().config(part_config(thinker, "text_config"));
  config.rope.theta = 1e6;
  config.rope.mrope_section = {16, 24, 24};
  auto vision = qwen2_5_vl_vision(vision_config_of(thinker));
  vision.names.qkv = {};
  vision.names.q = "attn.q", vision.names.k = "attn.k", vision.names.v = "attn.v";
  complete_thinker(config, thinker, std::move(vision), qwen2_5_omni_audio(part_config(thinker, "audio_config")));
  return config;
}

DecoderConfig qwen3_omni_moe_config(const Json& hf) {
  const Json& thinker = part_config(hf, "thinker_config");
  const Json& text = part_config(thinker, "text_config");
  auto config = qwen3_moe_family().config(text);
  config.experts.norm_topk_prob = flag_or(text, "norm_topk_prob", true);
  config.rope.theta = 1e6;
  config.rope.mrope_section = {24, 20, 20};
  config.rope.mrope_interleaved = true;
  auto vision = qwen3_vl_vision(vision_config_of(thinker));
  vision.names.deepstack = "thinker.visual.merger_list";
  vision.names.merger_norm = "ln_q", vision.names.merger_first = "mlp.0", vision.names.merger_last = "mlp.2";
  complete_thinker(config, thinker, std::move(vision), qwen3_omni_audio(part_config(thinker, "audio_config")));
  return config;
}

}  // namespace

const Family& qwen2_5_omni_family() {
  static const Family family{"qwen2_5_omni", {"Qwen2_5OmniModel", "Qwen2_5OmniForConditionalGeneration"}, qwen2_5_omni_config};
  return family;
}

const Family& qwen3_omni_moe_family() {
  static const Family family{"qwen3_omni_moe", {"Qwen3OmniMoeForConditionalGeneration"}, qwen3_omni_moe_config};
  return family;
}

}  // namespace hone::model
