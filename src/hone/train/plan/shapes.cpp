#include "hone/train/plan/shapes.h"

#include <string_view>

#include "hone/base/strings/lower_case.h"

namespace hone::train {
namespace {

enum class Family { qwen2, qwen3, llama, mistral, qwen2_moe, qwen3_moe, mixtral };

struct ExpertShape {
  int64_t count = 0, per_token = 0, width = 0, shared_width = 0;
};

struct Shape {
  std::string_view name;
  Family family;
  int64_t hidden, intermediate, layers, heads, kv_heads, head_dim, vocabulary;
  bool tied;
  ExpertShape experts = {};
};

constexpr Shape kShapes[] = {
    {"qwen2-0.5b", Family::qwen2, 896, 4864, 24, 14, 2, 64, 151936, true},
    {"qwen2-1.5b", Family::qwen2, 1536, 8960, 28, 12, 2, 128, 151936, true},
    {"qwen2-7b", Family::qwen2, 3584, 18944, 28, 28, 4, 128, 152064, false},
    {"qwen2-72b", Family::qwen2, 8192, 29568, 80, 64, 8, 128, 152064, false},
    {"qwen2.5-0.5b", Family::qwen2, 896, 4864, 24, 14, 2, 64, 151936, true},
    {"qwen2.5-1.5b", Family::qwen2, 1536, 8960, 28, 12, 2, 128, 151936, true},
    {"qwen2.5-3b", Family::qwen2, 2048, 11008, 36, 16, 2, 128, 151936, true},
    {"qwen2.5-7b", Family::qwen2, 3584, 18944, 28, 28, 4, 128, 152064, false},
    {"qwen2.5-14b", Family::qwen2, 5120, 13824, 48, 40, 8, 128, 152064, false},
    {"qwen2.5-32b", Family::qwen2, 5120, 27648, 64, 40, 8, 128, 152064, false},
    {"qwen2.5-72b", Family::qwen2, 8192, 29568, 80, 64, 8, 128, 152064, false},
    {"qwen1.5-14b", Family::qwen2, 5120, 13696, 40, 40, 40, 128, 152064, false},
    {"qwen3-0.6b", Family::qwen3, 1024, 3072, 28, 16, 8, 128, 151936, true},
    {"qwen3-1.7b", Family::qwen3, 2048, 6144, 28, 16, 8, 128, 151936, true},
    {"qwen3-4b", Family::qwen3, 2560, 9728, 36, 32, 8, 128, 151936, true},
    {"qwen3-8b", Family::qwen3, 4096, 12288, 36, 32, 8, 128, 151936, false},
    {"qwen3-14b", Family::qwen3, 5120, 17408, 40, 40, 8, 128, 151936, false},
    {"qwen3-32b", Family::qwen3, 5120, 25600, 64, 64, 8, 128, 151936, false},
    {"llama-3-8b", Family::llama, 4096, 14336, 32, 32, 8, 128, 128256, false},
    {"llama-3-70b", Family::llama, 8192, 28672, 80, 64, 8, 128, 128256, false},
    {"llama-3.1-8b", Family::llama, 4096, 14336, 32, 32, 8, 128, 128256, false},
    {"llama-3.1-70b", Family::llama, 8192, 28672, 80, 64, 8, 128, 128256, false},
    {"llama-3.2-1b", Family::llama, 2048, 8192, 16, 32, 8, 64, 128256, true},
    {"llama-3.2-3b", Family::llama, 3072, 8192, 28, 24, 8, 128, 128256, true},
    {"mistral-7b", Family::mistral, 4096, 14336, 32, 32, 8, 128, 32768, false},
    {"qwen1.5-moe-a2.7b", Family::qwen2_moe, 2048, 5632, 24, 16, 16, 128, 151936, false, {60, 4, 1408, 5632}},
    {"qwen2-57b-a14b", Family::qwen2_moe, 3584, 18944, 28, 28, 4, 128, 151936, false, {64, 8, 2560, 20480}},
    {"qwen3-30b-a3b", Family::qwen3_moe, 2048, 6144, 48, 32, 4, 128, 151936, false, {128, 8, 768}},
    {"qwen3-235b-a22b", Family::qwen3_moe, 4096, 12288, 94, 64, 4, 128, 151936, false, {128, 8, 1536}},
    {"mixtral-8x7b", Family::mixtral, 4096, 14336, 32, 32, 8, 128, 32000, false, {8, 2, 14336}},
    {"mixtral-8x22b", Family::mixtral, 6144, 16384, 56, 48, 8, 128, 32768, false, {8, 2, 16384}},
};

std::string_view architecture(Family family) {
  switch (family) {
    case Family::qwen2:
      return "Qwen2ForCausalLM";
    case Family::qwen3:
      return "Qwen3ForCausalLM";
    case Family::llama:
      return "LlamaForCausalLM";
    case Family::mistral:
      return "MistralForCausalLM";
    case Family::qwen2_moe:
      return "Qwen2MoeForCausalLM";
    case Family::qwen3_moe:
      return "Qwen3MoeForCausalLM";
    case Family::mixtral:
      return "MixtralForCausalLM";
  }
  return "";
}

Json config_of(const Shape& shape) {
  Json config{{"architectures", {architecture(shape.family)}},
              {"hidden_size", shape.hidden},
              {"intermediate_size", shape.intermediate},
              {"num_hidden_layers", shape.layers},
              {"num_attention_heads", shape.heads},
              {"num_key_value_heads", shape.kv_heads},
              {"head_dim", shape.head_dim},
              {"vocab_size", shape.vocabulary},
              {"max_position_embeddings", 32768},
              {"rms_norm_eps", 1e-6},
              {"rope_theta", 1e6},
              {"hidden_act", "silu"},
              {"tie_word_embeddings", shape.tied},
              {"torch_dtype", "bfloat16"}};
  if (const auto& experts = shape.experts; experts.count > 0)
    config.update({{shape.family == Family::mixtral ? "num_local_experts" : "num_experts", experts.count},
                   {"num_experts_per_tok", experts.per_token},
                   {"moe_intermediate_size", experts.width},
                   {"shared_expert_intermediate_size", experts.shared_width},
                   {"norm_topk_prob", true}});
  return config;
}

}  // namespace

std::optional<Json> known_shape(const std::string& model) {
  auto name = lower_case(model.substr(model.find_last_of('/') + 1));
  if (name.starts_with("meta-")) name.erase(0, 5);
  for (const auto& shape : kShapes) {
    bool whole = name == shape.name || (name.starts_with(shape.name) && name[shape.name.size()] == '-');
    if (whole) return config_of(shape);
  }
  return std::nullopt;
}

std::vector<std::string> known_shape_names() {
  std::vector<std::string> names;
  for (const auto& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

}  // namespace hone::train
