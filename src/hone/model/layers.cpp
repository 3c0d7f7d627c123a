#include "hone/model/layers.h"

#include "hone/ops/linear/float8_linear.h"
#include "hone/ops/rms_norm.h"

namespace hone::model {

Tensor meta_tensor(at::IntArrayRef shape) { return at::empty(shape, at::TensorOptions(at::kMeta).dtype(at::kFloat)); }

// An offset from 1 keeps more digits in a short dtype than the sum would.
Tensor Norm::operator()(const Tensor& x) const {
  if (bias.defined()) return at::layer_norm(x, weight.sizes(), weight, bias, eps);
  auto y = zero_centered ? ops::zero_centered_rms_norm(x, weight, eps) : ops::rms_norm(x, weight, eps);
  return scale == 1 ? y : y * scale;
}

void Norm::divide(const Tensor& by) {
  const double base = zero_centered ? 1 : 0;
  weight = ((weight.to(at::kFloat) + base) / by - base).to(weight.scalar_type());
}

Tensor Linear::operator()(const Tensor& x, const LinearContext& mode) const { return tuned(x, mode, tuners.size()); }

Tensor Linear::tuned(const Tensor& x, const LinearContext& mode, size_t count) const {
  while (count > 0 && !tuners[count - 1]->active) --count;
  if (count == 0) return product(x, mode);
  auto beneath = [&](const Tensor& input) { return tuned(input, mode, count - 1); };
  return tuners[count - 1]->forward({x, beneath, bias, mode.training, mode.added_to});
}

Tensor Linear::product(const Tensor& x, const LinearContext& mode) const {
  Tensor y;
  if (quantized) {
    ops::LoraMapping all;
    for (const auto& adapter : adapters)
      if (adapter.active) all.push_back({adapter.adapter, 0, x.size(0)});
    y = ops::quantized_linear(x, *quantized, bias);
    ops::add_multi_lora(y, x, weight, bias, adapters, all);
  } else if (rounds_weight()) {
    auto weights = compute_weight();
    y = ops::with_updates_plain(ops::float8_linear(x, weights, bias), x, weights, bias, adapters, mode.training);
  } else {
    y = ops::lora_linear(x, compute_weight(), bias, adapters, mode.training, float8_weight);
  }
  if (mode.rows) ops::add_multi_lora(y, x, compute_weight(), bias, adapters, *mode.rows);
  return y;
}

Tensor Linear::compute_weight() const { return quantized_base ? quantized_base->dequantize(weight.scalar_type()) : weight; }

void Linear::quantize_base(const ops::WeightQuantization& how) {
  quantized_base = std::make_shared<ops::QuantizedTensor>(weight, how);
  weight = at::empty({1, 1}, weight.options()).expand(weight.sizes());
}

Tensor Embedding::operator()(const Tensor& tokens, const ops::LoraMapping& rows) const {
  auto result = at::embedding(weight, tokens);
  for (const auto& range : rows) {
    auto found = std::ranges::find(adapters, range.adapter, &ops::LoraWeights::adapter);
    if (found == adapters.end()) continue;
    auto part = at::embedding(found->a.t(), tokens.narrow(0, range.begin, range.end - range.begin));
    result.narrow(0, range.begin, range.end - range.begin).add_(at::linear(part, found->b) * found->scale);
  }
  for (const auto& adapter : adapters) {
    if (!adapter.active) continue;
    auto rows = at::embedding(adapter.a.t(), tokens);
    result = result + at::linear(rows, adapter.b) * adapter.scale;
  }
  result = result.to(weight.scalar_type());
  // The scale is rounded like the weights.
  return scale == 1 ? result : result * at::scalar_tensor(scale, result.options());
}

}  // namespace hone::model
