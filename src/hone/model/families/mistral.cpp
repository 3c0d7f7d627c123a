// Mistral: Llama's block with a sliding window on every layer when the config names one.
#include <algorithm>

#include "hone/model/families/family.h"

namespace hone::model {
namespace {

DecoderConfig mistral_config(const Json& hf) {
  auto config = llama_like_config(hf);
  // If absent, transformers uses the first release's window; later releases have null.
  std::ranges::fill(config.sliding_windows, hf.contains("sliding_window") ? size_or(hf, "sliding_window", 0) : 4096);
  return config;
}

}  // namespace

const Family& mistral_family() {
  static const Family family{"mistral", {"MistralForCausalLM"}, mistral_config};
  return family;
}

}  // namespace hone::model
