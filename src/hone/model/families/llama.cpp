// Llama 3, 3.1, 3.2: the block that the other families vary.
#include "hone/model/families/family.h"

namespace hone::model {

DecoderConfig llama_like_config(const Json& hf) {
  DecoderConfig config;
  config.vocab_size = required_size(hf, "vocab_size");
  config.hidden_size = required_size(hf, "hidden_size");
  config.intermediate_size = required_size(hf, "intermediate_size");
  config.layers = required_size(hf, "num_hidden_layers");
  config.max_position_embeddings = size_or(hf, "max_position_embeddings", 2048);
  auto& attention = config.attention;
  attention.heads = required_size(hf, "num_attention_heads");
  attention.kv_heads = size_or(hf, "num_key_value_heads", attention.heads);
  attention.head_dim = size_or(hf, "head_dim", config.hidden_size / attention.heads);
  config.norm_eps = number_or(hf, "rms_norm_eps", 1e-6);
  config.initializer_range = number_or(hf, "initializer_range", 0.02);
  config.tie_word_embeddings = flag_or(hf, "tie_word_embeddings", false);
  config.sliding_windows.assign(static_cast<size_t>(config.layers), 0);
  return config;
}

namespace {

DecoderConfig llama_config(const Json& hf) {
  auto config = llama_like_config(hf);
  config.attention.qkv_bias = config.attention.output_bias = flag_or(hf, "attention_bias", false);
  config.mlp_bias = flag_or(hf, "mlp_bias", false);
  return config;
}

}  // namespace

const Family& llama_family() {
  static const Family family{"llama", {"LlamaForCausalLM"}, llama_config};
  return family;
}

}  // namespace hone::model
