// Qwen2-MoE and Qwen1.5-MoE: Qwen2's attention; in addition to the routed experts, a gated shared expert for every token.
#include "hone/model/families/family.h"

namespace hone::model {
namespace {

DecoderConfig qwen2_moe_config(const Json& hf) {
  auto config = llama_like_config(hf);
  config.attention.qkv_bias = flag_or(hf, "qkv_bias", true);
  // Alternating among the lower layers, unlike Qwen2's upper ones.
  if (flag_or(hf, "use_sliding_window", false)) {
    const int64_t end = size_or(hf, "max_window_layers", 28);
    set_sliding_windows(config, hf, size_or(hf, "sliding_window", 0),
                        [=](int64_t layer) { return layer % 2 == 0 && layer < end; });
  }
  config.experts = qwen_experts(hf, config);
  if (config.experts.count > 0)
    config.experts.shared_expert_intermediate_size = required_size(hf, "shared_expert_intermediate_size");
  return config;
}

}  // namespace

const Family& qwen2_moe_family() {
  static const Family family{"qwen2_moe", {"Qwen2MoeForCausalLM"}, qwen2_moe_config};
  return family;
}

}  // namespace hone::model
