// Qwen3-MoE: Qwen3's attention, and experts in place of the MLP of most or all layers.
#include <algorithm>

#include "hone/model/families/family.h"

namespace hone::model {
namespace {

DecoderConfig qwen3_moe_config(const Json& hf) {
  auto config = llama_like_config(hf);
  config.attention.qk_norm = true;
  config.attention.qkv_bias = config.attention.output_bias = flag_or(hf, "attention_bias", false);
  // transformers gives its layers the window regardless of max_window_layers.
  if (flag_or(hf, "use_sliding_window", false))
    config.sliding_windows.assign(config.sliding_windows.size(), size_or(hf, "sliding_window", 0));
  config.experts = qwen_experts(hf, config);
  return config;
}

}  // namespace

MoeConfig qwen_experts(const Json& hf, const DecoderConfig& config) {
  MoeConfig experts;
  experts.count = hf.contains("num_experts")
                      ? size_or(hf, "num_experts", 0)
                      : required_size(hf, "num_local_experts");  // transformers 5 writes the latter for Qwen3
  if (experts.count == 0) return {};
  experts.num_experts_per_tok = required_size(hf, "num_experts_per_tok");
  experts.width = required_size(hf, "moe_intermediate_size");
  experts.norm_topk_prob = flag_or(hf, "norm_topk_prob", false);
  const int64_t step = std::max<int64_t>(1, size_or(hf, "decoder_sparse_step", 1));
  const auto dense = sizes_of(hf, "mlp_only_layers");
  for (int64_t layer = 0; layer < config.layers; ++layer)
    experts.in_layer.push_back((layer + 1) % step == 0 && !std::ranges::count(dense, layer));
  return experts;
}

const Family& qwen3_moe_family() {
  static const Family family{"qwen3_moe", {"Qwen3MoeForCausalLM"}, qwen3_moe_config};
  return family;
}

}  // namespace hone::model
