#include "hone/train/loop/layer_sampling.h"

#include <algorithm>
#include <numeric>

#include "hone/base/error.h"
#include "hone/base/rng.h"

namespace hone::train {

LayerSampling::LayerSampling(model::CausalLM& model, const LayerSamplingConfig& config, uint64_t seed)
    : config_(config), seed_(seed), layers_(static_cast<size_t>(model.config().layers)) {
  if (config.layers > model.config().layers)
    throw UserError(ExitCode::usage,
                    fmt::format("lisa_activated_layers is {}; the model has {} layers", config.layers, model.config().layers));
  size_t layer = 0;
  for (const auto& unit : model.units()) {
    if (unit.kind != model::UnitKind::block) continue;
    for (const auto& parameter : unit.module.parameters())
      if (parameter.value->requires_grad()) layers_[layer].push_back(*parameter.value);
    ++layer;
  }
}

std::vector<int64_t> LayerSampling::drawn(int64_t step) const {
  std::vector<int64_t> all(layers_.size());
  std::iota(all.begin(), all.end(), 0);
  Rng(seed_ ^ 0x115Aull, static_cast<uint64_t>(step / config_.interval)).shuffle(all);
  all.resize(static_cast<size_t>(config_.layers));
  std::ranges::sort(all);
  return all;
}

void LayerSampling::before_step(int64_t step) {
  auto active = drawn(step);
  for (size_t layer = 0; layer < layers_.size(); ++layer)
    for (auto& weight : layers_[layer]) weight.requires_grad_(std::ranges::count(active, static_cast<int64_t>(layer)) > 0);
}

}  // namespace hone::train
