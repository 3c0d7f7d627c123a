// Qwen3: Llama's block with RMSNorm on each head of queries and keys, and an explicit head size.
#include "hone/model/families/family.h"

namespace hone::model {
namespace {

DecoderConfig qwen3_config(const Json& hf) {
  auto config = llama_like_config(hf);
  config.attention.head_dim = size_or(hf, "head_dim", 128);
  config.attention.qk_norm = true;
  config.attention.qkv_bias = config.attention.output_bias = flag_or(hf, "attention_bias", false);
  if (flag_or(hf, "use_sliding_window", false)) {
    const int64_t first = size_or(hf, "max_window_layers", 28);
    set_sliding_windows(config, hf, size_or(hf, "sliding_window", 0), [=](int64_t layer) { return layer >= first; });
  }
  return config;
}

}  // namespace

const Family& qwen3_family() {
  static const Family family{"qwen3", {"Qwen3ForCausalLM"}, qwen3_config};
  return family;
}

}  // namespace hone::model
