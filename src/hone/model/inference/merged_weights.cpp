#include "hone/model/inference/merged_weights.h"

#include <algorithm>
#include <array>

#include "hone/device/memory.h"
#include "hone/model/inference/tensor_parallel_decoder.h"

namespace hone::model {
namespace {

std::array<Linear*, 7> linears_of(Block& block) {
  auto& a = block.attention;
  return {&a.q, &a.k, &a.v, &a.o, &block.mlp->gate, &block.mlp->up, &block.mlp->down};
}

bool is_plain_lora(const Linear& layer) {
  const auto is_dora = [](const ops::LoraWeights& adapter) { return adapter.magnitude.defined(); };
  const bool trains = layer.weight.requires_grad() || (layer.bias.defined() && layer.bias.requires_grad());
  return !trains && layer.tuners.empty() && !layer.quantized && !layer.quantized_base && !layer.float8 &&
         std::ranges::none_of(layer.adapters, is_dora);
}

Tensor merged(const Linear& layer) {
  auto sum = layer.weight;
  for (const auto& adapter : layer.adapters)
    if (adapter.active) sum = sum.to(at::kFloat).add(at::mm(adapter.b.to(at::kFloat), adapter.a.to(at::kFloat)), adapter.scale);
  return sum;
}

}  // namespace

bool MergedWeights::supports(CausalLM& model) {
  constexpr int64_t kPartOfMemory = 8;
  const auto& decoder = model.decoder();
  if (!model.device().is_cuda() || is_tensor_parallel(model) || decoder.weight_hooks || devices_of(decoder).size() > 1)
    return false;
  int64_t bytes = 0;
  bool any = false;
  for (auto& block : model.decoder().blocks) {
    if (block.moe || !block.mlp || block.delta_net || !block.attention.can_fuse()) return false;
    for (const auto* layer : linears_of(block)) {
      if (!is_plain_lora(*layer)) return false;
      any |= !layer->adapters.empty();
      bytes += static_cast<int64_t>(layer->weight.nbytes());
    }
  }
  return any && bytes <= device::memory_use(model.device()).total / kPartOfMemory;
}

MergedWeights::MergedWeights(CausalLM& model) : model_(model), blocks_(model.decoder().blocks) {
  at::NoGradGuard no_grad;
  for (auto& block : blocks_) {
    for (auto* layer : linears_of(block)) layer->adapters.clear(), layer->weight = at::empty_like(layer->weight);
    auto& a = block.attention;
    auto& mlp = *block.mlp;
    a.qkv = FusedProjection::of({&a.q, &a.k, &a.v});
    mlp.gate_up = FusedProjection::of({&mlp.gate, &mlp.up});
  }
}

void MergedWeights::refresh() {
  at::NoGradGuard no_grad;
  auto& blocks = model_.decoder().blocks;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto from = linears_of(blocks[i]), to = linears_of(blocks_[i]);
    for (size_t j = 0; j < from.size(); ++j) to[j]->weight.copy_(merged(*from[j]));
  }
}

void MergedWeights::exchange() {
  auto& blocks = model_.decoder().blocks;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto ours = linears_of(blocks_[i]), theirs = linears_of(blocks[i]);
    for (size_t j = 0; j < ours.size(); ++j)
      std::swap(ours[j]->weight, theirs[j]->weight), std::swap(ours[j]->adapters, theirs[j]->adapters);
    std::swap(blocks_[i].attention.qkv, blocks[i].attention.qkv);
    std::swap(blocks_[i].mlp->gate_up, blocks[i].mlp->gate_up);
  }
}

}  // namespace hone::model
