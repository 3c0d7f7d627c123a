// Qwen3-Next and Qwen3.5: most layers are gated delta nets; every fourth has attention with gated outputs and heads that rotate
// in part. Norms are stored around zero. Qwen3-Next and the MoE of Qwen3.5 have routed experts and a gated shared one.
#include <algorithm>
#include <functional>

#include "hone/model/families/family.h"

namespace hone::model {
namespace {

[[noreturn]] void refuse_config(const std::string& message) { throw UserError(ExitCode::bad_checkpoint, message); }

// transformers 5 writes the factor into rope_parameters.
int64_t rotary_dim_of(const Json& hf, int64_t head_dim) {
  double factor = number_or(hf, "partial_rotary_factor", 0.25);
  for (const char* name : {"rope_scaling", "rope_parameters"})
    if (auto found = hf.find(name); found != hf.end() && found->is_object())
      factor = number_or(*found, "partial_rotary_factor", factor);
  if (!(factor > 0 && factor <= 1)) refuse_config(fmt::format("\"partial_rotary_factor\" is {}; expected 0 to 1", factor));
  const auto rotary_dim = static_cast<int64_t>(static_cast<double>(head_dim) * factor);
  if (rotary_dim < 2)
    refuse_config(fmt::format("\"partial_rotary_factor\" {} of \"head_dim\" {} leaves {} elements to rotate; expected 2 or more",
                              factor, head_dim, rotary_dim));
  return rotary_dim;
}

// Every n-th layer has full attention, unless the layers are listed.
std::vector<bool> linear_layers(const Json& hf, int64_t layers) {
  const int64_t interval = size_or(hf, "full_attention_interval", 4);
  const auto types = hf.value("layer_types", Json());
  if (types.is_null() && interval == 0) refuse_config("\"full_attention_interval\" is 0; expected a positive number");
  if (!types.is_null() && (!types.is_array() || static_cast<int64_t>(types.size()) != layers))
    refuse_config(fmt::format("\"layer_types\" has {} entries; expected {}, one per layer", types.size(), layers));
  std::vector<bool> linear;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const auto type = types.is_null() ? Json() : types[static_cast<size_t>(layer)];
    if (!type.is_null() && type != "linear_attention" && type != "full_attention")
      refuse_config(fmt::format("\"layer_types\" has {}; expected \"linear_attention\" or \"full_attention\"", type.dump()));
    linear.push_back(type.is_null() ? (layer + 1) % interval != 0 : type == "linear_attention");
  }
  if (std::ranges::all_of(linear, std::identity()))
    refuse_config(fmt::format("none of {} layers has full attention; expected at least one", layers));
  return linear;
}

LinearAttentionConfig linear_attention_of(const Json& hf, int64_t layers, DeltaNetProjections projections) {
  LinearAttentionConfig config;
  constexpr int64_t kMost = int64_t{1} << 24;
  auto read = [&](const char* name, int64_t otherwise) {
    const int64_t size = hf.value(name, Json()).is_null() ? otherwise : required_size(hf, name);
    if (size > kMost) refuse_config(fmt::format("\"{}\" is {}; expected at most {}", name, size, kMost));
    return size;
  };
  config.key_heads = read("linear_num_key_heads", 16);
  config.value_heads = read("linear_num_value_heads", 32);
  config.key_dim = read("linear_key_head_dim", 128);
  config.value_dim = read("linear_value_head_dim", 128);
  config.conv_kernel = read("linear_conv_kernel_dim", 4);
  config.projections = projections;
  config.in_layer = linear_layers(hf, layers);
  if (config.value_heads % config.key_heads != 0)
    refuse_config(fmt::format("linear_num_value_heads {} is not a multiple of linear_num_key_heads {}", config.value_heads,
                              config.key_heads));
  return config;
}

DecoderConfig hybrid_config(Json hf, DeltaNetProjections projections) {
  if (hf.value("intermediate_size", Json()).is_null())  // no layer has an MLP without experts
    hf["intermediate_size"] = size_or(hf, "shared_expert_intermediate_size", 512);
  auto config = llama_like_config(hf);
  auto& attention = config.attention;
  attention.head_dim = size_or(hf, "head_dim", 256);
  attention.kv_heads = size_or(hf, "num_key_value_heads", 2);
  attention.qkv_bias = attention.output_bias = flag_or(hf, "attention_bias", false);
  attention.qk_norm = attention.output_gate = true;
  attention.rotary_dim = rotary_dim_of(hf, attention.head_dim);
  config.max_position_embeddings = size_or(hf, "max_position_embeddings", 32768);
  config.zero_centered_norms = true;
  config.linear_attention = linear_attention_of(hf, config.layers, projections);
  config.carried = {"mtp."};  // heads that predict more tokens
  return config;
}

DecoderConfig qwen3_next_config(const Json& hf) {
  auto config = hybrid_config(hf, DeltaNetProjections::grouped);
  config.experts = qwen_experts(hf, config);
  if (config.experts.count == 0) return config;
  config.experts.norm_topk_prob = flag_or(hf, "norm_topk_prob", true);
  config.experts.shared_expert_intermediate_size = required_size(hf, "shared_expert_intermediate_size");
  return config;
}

DecoderConfig qwen3_5_config(const Json& hf) {
  auto config = hybrid_config(hf, DeltaNetProjections::separate);
  config.carried.push_back("model.visual.");
  return config;
}

DecoderConfig qwen3_5_moe_config(const Json& hf) {
  auto config = qwen3_5_config(hf);
  config.experts = qwen_experts(hf, config);
  config.experts.in_layer.assign(static_cast<size_t>(config.layers), true);
  config.experts.norm_topk_prob = true;  // regardless of the file
  config.experts.shared_expert_intermediate_size = required_size(hf, "shared_expert_intermediate_size");
  return config;
}

}  // namespace

const Family& qwen3_next_family() {
  static const Family family{"qwen3_next", {"Qwen3NextForCausalLM"}, qwen3_next_config};
  return family;
}

const Family& qwen3_5_text_family() {
  static const Family family{"qwen3_5_text", {"Qwen3_5ForCausalLM"}, qwen3_5_config};
  return family;
}

const Family& qwen3_5_moe_text_family() {
  static const Family family{"qwen3_5_moe_text", {"Qwen3_5MoeForCausalLM"}, qwen3_5_moe_config};
  return family;
}

}  // namespace hone::model
