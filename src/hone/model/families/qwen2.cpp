// Qwen2 and Qwen2.5: Llama's block with biases on queries, keys and values, and an optional window on the upper layers.
#include "hone/model/families/family.h"

namespace hone::model {
namespace {

DecoderConfig qwen2_config(const Json& hf) {
  auto config = llama_like_config(hf);
  config.attention.qkv_bias = true;
  if (flag_or(hf, "use_sliding_window", false)) {
    const int64_t first = size_or(hf, "max_window_layers", 28);
    set_sliding_windows(config, hf, size_or(hf, "sliding_window", 0), [=](int64_t layer) { return layer >= first; });
  }
  return config;
}

}  // namespace

const Family& qwen2_family() {
  static const Family family{"qwen2", {"Qwen2ForCausalLM"}, qwen2_config};
  return family;
}

}  // namespace hone::model
