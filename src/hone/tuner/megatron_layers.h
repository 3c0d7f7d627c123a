// Megatron's layer names as LoRA targets: linear_qkv, linear_proj, linear_fc1, linear_fc2, word_embeddings, output_layer. A fused
// Megatron layer corresponds to several layers here, and experts are parameters.
#pragma once
#include <optional>
#include <set>
#include <string>

#include "hone/model/causal_lm.h"

namespace hone::tuner {

struct MegatronLayers {
  std::set<std::string> modules;     // last parts of paths
  std::set<std::string> parameters;  // ends of experts' names
};

// Nothing if Megatron has no such name, or this model no such layer.
std::optional<MegatronLayers> megatron_layers(model::CausalLM& model, const std::string& name);

// "mlp.experts.down_proj" of "model.layers.0.mlp.experts.down_proj": what an adapter's configuration calls it in all layers.
std::string parameter_target(const std::string& path);

}  // namespace hone::tuner
