#include "hone/tuner/megatron_layers.h"

#include "hone/model/decoder.h"
#include "hone/tuner/targets.h"

namespace hone::tuner {
namespace {

std::vector<const model::Linear*> linears_of(const model::Block& block, const std::string& name) {
  if (const auto& net = block.delta_net) {
    if (name == "in_proj") {
      std::vector<const model::Linear*> list;
      for (const auto& layer : net->projections) list.push_back(&layer);
      return list;
    }
    if (name == "out_proj") return {&net->out};
  }
  const auto& attention = block.attention;
  if (name == "linear_qkv") return {&attention.q, &attention.k, &attention.v};
  if (name == "linear_proj") return {&attention.o};
  if (name == "linear_fc1" && block.mlp) return {&block.mlp->gate, &block.mlp->up};
  if (name == "linear_fc2" && block.mlp) return {&block.mlp->down};
  return {};
}

const model::ExpertWeights* experts_of(const model::Block& block, const std::string& name) {
  if (!block.moe) return nullptr;
  if (name == "linear_fc1") return &block.moe->gate_up;
  return name == "linear_fc2" ? &block.moe->down : nullptr;
}

}  // namespace

std::optional<MegatronLayers> megatron_layers(model::CausalLM& model, const std::string& name) {
  MegatronLayers found;
  if (name == "word_embeddings") found.modules.emplace(last_part(model.embedding().name));
  if (name == "output_layer") found.modules.emplace(last_part(model.head().name));
  for (const auto& block : model.decoder().blocks) {
    for (const auto* linear : linears_of(block, name))
      if (linear->weight.defined()) found.modules.emplace(last_part(linear->name));
    if (const auto* experts = experts_of(block, name)) found.parameters.insert(parameter_target(experts->name));
  }
  if (found.modules.empty() && found.parameters.empty()) return {};
  return found;
}

std::string parameter_target(const std::string& path) {
  return path.substr(path.rfind('.', path.rfind('.', path.rfind('.') - 1) - 1) + 1);
}

}  // namespace hone::tuner
