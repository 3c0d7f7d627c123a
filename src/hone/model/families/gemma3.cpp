// Gemma 3: norms before and after each half block and on heads; most layers use a sliding window with its own rotary frequencies.
// Larger models read images of 256 tokens each, which attend to each other.
#include <cmath>

#include "hone/model/families/family.h"

namespace hone::model {
namespace {

void refuse_what_gemma3_lacks(const Json& hf) {
  for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"})
    if (number_or(hf, cap, 0) != 0)
      throw UserError(ExitCode::bad_checkpoint, fmt::format("\"{}\" is set, which hone does not compute", cap));
  if (flag_or(hf, "use_bidirectional_attention", false))
    throw UserError(ExitCode::bad_checkpoint, "\"use_bidirectional_attention\" is true: hone supports causal attention only");
  if (auto act = hf.value("hidden_activation", Json()); !act.is_null() && act != "gelu_pytorch_tanh")
    throw UserError(ExitCode::bad_checkpoint,
                    fmt::format("\"hidden_activation\" is {}; expected \"gelu_pytorch_tanh\"", act.dump()));
}

// Every n-th layer has full attention, unless the layers are listed.
void set_gemma3_windows(DecoderConfig& config, const Json& hf) {
  const int64_t pattern = size_or(hf, "sliding_window_pattern", size_or(hf, "_sliding_window_pattern", 6));
  set_sliding_windows(config, hf, size_or(hf, "sliding_window", 4096), [=](int64_t layer) {
    if (pattern == 0) throw UserError(ExitCode::bad_checkpoint, "\"sliding_window_pattern\" is 0; expected a positive number");
    return (layer + 1) % pattern != 0;
  });
}

// transformers 4 writes rope_local_base_freq, 5 puts it into rope_parameters.
RopeConfig rope_of_windows(const Json& hf) {
  RopeConfig rope;
  rope.theta = number_or(hf, "rope_local_base_freq", 10000.0);
  auto both = hf.value("rope_parameters", Json());
  if (!both.is_object() || !both.contains("sliding_attention") || !both["sliding_attention"].is_object()) return rope;
  const auto& own = both["sliding_attention"];
  if (own.value("rope_type", Json("default")) != "default")
    throw UserError(ExitCode::bad_checkpoint, "the rope_type of \"sliding_attention\" is not \"default\"");
  rope.theta = number_or(own, "rope_theta", rope.theta);
  return rope;
}

// Configs of multimodal models omit the class's defaults.
Json with_defaults(Json hf) {
  for (const auto& [field, value] : {std::pair<const char*, int64_t>{"vocab_size", 262208},
                                     {"hidden_size", 2304},
                                     {"intermediate_size", 9216},
                                     {"num_hidden_layers", 26},
                                     {"num_attention_heads", 8},
                                     {"num_key_value_heads", 4}})
    if (hf.value(field, Json()).is_null()) hf[field] = value;
  return hf;
}

DecoderConfig gemma3_config(const Json& hf) {
  refuse_what_gemma3_lacks(hf);
  auto config = llama_like_config(hf);
  auto& attention = config.attention;
  attention.head_dim = size_or(hf, "head_dim", 256);
  attention.qk_norm = true;
  attention.qkv_bias = attention.output_bias = flag_or(hf, "attention_bias", false);
  const double scalar = number_or(hf, "query_pre_attn_scalar", 256);
  if (!(scalar > 0)) throw UserError(ExitCode::bad_checkpoint, "\"query_pre_attn_scalar\" is not above 0");
  attention.scale = 1 / std::sqrt(scalar);
  config.max_position_embeddings = size_or(hf, "max_position_embeddings", 131072);
  config.rope.theta = 1e6;
  set_gemma3_windows(config, hf);
  config.window_rope = rope_of_windows(hf);
  config.activation = Activation::gelu_tanh;
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  config.zero_centered_norms = config.has_post_norms = true;
  config.names.pre_mlp_norm = "pre_feedforward_layernorm";
  config.names.post_attention_norm = "post_attention_layernorm";
  config.names.post_mlp_norm = "post_feedforward_layernorm";
  config.tie_word_embeddings = flag_or(hf, "tie_word_embeddings", true);
  return config;
}

DecoderConfig gemma3_vision_config(const Json& hf) {
  auto config = gemma3_config(with_defaults(text_config_of(hf)));
  config.tie_word_embeddings = flag_or(hf, "tie_word_embeddings", config.tie_word_embeddings);
  config.names.model = "model.language_model";
  const Json& tower = vision_config_of(hf);
  add_tower(config, siglip_vision(tower, config.hidden_size, size_or(hf, "mm_tokens_per_image", 256)));
  if (flag_or(tower, "vision_use_head", false)) config.carried = {config.vision->names.tower + ".head."};
  return config;
}

}  // namespace

const Family& gemma3_vision_family() {
  static const Family family{"gemma3", {"Gemma3ForConditionalGeneration"}, gemma3_vision_config};
  return family;
}

const Family& gemma3_family() {
  static const Family family{"gemma3_text", {"Gemma3ForCausalLM"}, gemma3_config};
  return family;
}

}  // namespace hone::model
