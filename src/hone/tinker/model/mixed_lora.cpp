#include "hone/tinker/model/mixed_lora.h"

#include <algorithm>

#include "hone/ops/linear/grouped_lora.h"
#include "hone/tuner/adapter.h"

namespace hone::tinker {
namespace {

class MixedLora final : public model::LinearTuner {
 public:
  MixedLora(const std::vector<ops::LoraWeights>& adapters, const ops::LoraMapping& rows) : adapters_(adapters), rows_(rows) {}

  Tensor forward(const Call& call) const override {
    return ops::add_accumulating_grouped_lora(call.product(call.x), call.x, adapters_, rows_);
  }
  Tensor merged(const Tensor& weight) const override { return weight; }
  std::vector<model::NamedParameter> tensors() override { return {}; }

 private:
  const std::vector<ops::LoraWeights>& adapters_;  // of the layer
  ops::LoraMapping rows_;
};

}  // namespace

bool has_adapter_of(const std::vector<ops::LoraWeights>& adapters, const ops::LoraMapping& rows) {
  return std::ranges::any_of(rows, [&](const ops::LoraRange& range) {
    return std::ranges::find(adapters, range.adapter, &ops::LoraWeights::adapter) != adapters.end();
  });
}

// A single adapter is fused into the layers' own products, which is faster.
ActiveAdapters::ActiveAdapters(model::CausalLM& model, const ops::LoraMapping& rows, bool training) : model_(model) {
  model_.set_training(training);
  const bool alone = rows.size() == 1 && !rows.front().adapter.empty();
  tuner::set_active(model_, alone ? std::vector{rows.front().adapter} : std::vector<std::string>{});
  if (rows.size() == 1) return;
  for (auto* layer : model_.tree().linears()) {
    if (layer == &model_.head() || !has_adapter_of(layer->adapters, rows)) continue;
    layer->tuners.push_back(std::make_shared<MixedLora>(layer->adapters, rows));
    mixed_.push_back(layer);
  }
}

ActiveAdapters::~ActiveAdapters() {
  for (auto* layer : mixed_) layer->tuners.pop_back();
  model_.set_training(false);
  tuner::set_active(model_, {});
}

}  // namespace hone::tinker
