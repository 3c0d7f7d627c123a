#include "hone/tinker/model/mixed_lora.h"

#include <algorithm>

#include "hone/tuner/adapter.h"

namespace hone::tinker {
namespace {

struct RowUpdate {
  int64_t begin, end;
  const ops::LoraWeights* lora;  // null: nothing is added to these rows
};

class MixedLora final : public model::LinearTuner {
 public:
  explicit MixedLora(std::vector<RowUpdate> updates) : updates_(std::move(updates)) {}

  Tensor forward(const Call& call) const override {
    auto y = call.product(call.x);
    TensorList parts;
    for (const auto& [begin, end, lora] : updates_) {
      if (lora) {
        auto x = call.x.narrow(0, begin, end - begin).to(lora->a.scalar_type());
        parts.push_back(at::linear(at::linear(x, lora->a), lora->b) * lora->scale);
      } else {
        parts.push_back(at::zeros({end - begin, y.size(1)}, y.options().dtype(at::kFloat)));
      }
    }
    return (y + at::cat(parts)).to(y.scalar_type());
  }
  Tensor merged(const Tensor& weight) const override { return weight; }
  std::vector<model::NamedParameter> tensors() override { return {}; }

 private:
  std::vector<RowUpdate> updates_;
};

std::vector<RowUpdate> updates_on(const model::Linear& layer, const ops::LoraMapping& rows) {
  std::vector<RowUpdate> updates;
  for (const auto& range : rows) {
    auto found = std::ranges::find(layer.adapters, range.adapter, &ops::LoraWeights::adapter);
    updates.push_back({range.begin, range.end, found == layer.adapters.end() ? nullptr : &*found});
  }
  return updates;
}

}  // namespace

// One adapter alone is a part of the layers' own products, which is faster.
ActiveAdapters::ActiveAdapters(model::CausalLM& model, const ops::LoraMapping& rows, bool training) : model_(model) {
  model_.set_training(training);
  const bool alone = rows.size() == 1 && !rows.front().adapter.empty();
  tuner::set_active(model_, alone ? std::vector{rows.front().adapter} : std::vector<std::string>{});
  if (rows.size() == 1) return;
  for (auto* layer : model_.tree().linears()) {
    auto updates = updates_on(*layer, rows);
    if (layer == &model_.head() || std::ranges::none_of(updates, &RowUpdate::lora)) continue;
    layer->tuners.push_back(std::make_shared<MixedLora>(std::move(updates)));
    mixed_.push_back(layer);
  }
}

ActiveAdapters::~ActiveAdapters() {
  for (auto* layer : mixed_) layer->tuners.pop_back();
  model_.set_training(false);
  tuner::set_active(model_, {});
}

}  // namespace hone::tinker
