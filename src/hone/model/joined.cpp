#include "hone/model/joined.h"

#include "hone/ops/matmul.h"

namespace hone::model {
namespace {

// Puts the tensors end to end and makes each a view of its part.
Tensor laid_end_to_end(const std::vector<Tensor*>& parts) {
  TensorList values;
  for (auto* part : parts) values.push_back(*part);
  auto whole = at::cat(values);
  int64_t begin = 0;
  for (auto* part : parts) {
    int64_t rows = part->size(0);
    *part = whole.narrow(0, begin, rows);
    begin += rows;
  }
  return whole;
}

// The same for rounded weights, whose rows stand alone.
std::shared_ptr<const ops::QuantizedWeight> rounded_end_to_end(const std::vector<Linear*>& layers) {
  std::vector<ops::QuantizedWeight> parts;
  for (auto* layer : layers) parts.push_back(*layer->quantized);
  std::vector<Tensor*> codes, scales;
  for (auto& part : parts) codes.push_back(&part.codes), scales.push_back(&part.scales);
  auto whole = std::make_shared<ops::QuantizedWeight>(parts.front());
  whole->codes = laid_end_to_end(codes);
  whole->scales = laid_end_to_end(scales);
  for (size_t i = 0; i < layers.size(); ++i) layers[i]->quantized = std::make_shared<const ops::QuantizedWeight>(parts[i]);
  return whole;
}

const Tensor& numbers_of(const Linear& layer) { return layer.quantized ? layer.quantized->codes : layer.weight; }

}  // namespace

Joined Joined::of(const std::vector<Linear*>& layers) {
  at::NoGradGuard no_grad;
  Joined joined;
  std::vector<Tensor*> weights, biases;
  for (auto* layer : layers) {
    weights.push_back(&layer->weight);
    if (layer->bias.defined()) biases.push_back(&layer->bias);
  }
  if (layers.front()->quantized) joined.rounded_ = rounded_end_to_end(layers);
  else joined.weight_ = laid_end_to_end(weights);
  if (biases.size() == layers.size()) joined.bias_ = laid_end_to_end(biases);
  return joined;
}

bool Joined::serves(std::initializer_list<const Linear*> layers) const {
  if (!weight_.defined() && !rounded_) return false;
  const auto* place = static_cast<const std::byte*>((rounded_ ? rounded_->codes : weight_).const_data_ptr());
  for (const auto* layer : layers) {
    const auto& numbers = numbers_of(*layer);
    bool same = !layer->is_tuned() && !layer->quantized == !rounded_ && layer->bias.defined() == bias_.defined();
    if (!same || numbers.const_data_ptr() != place) return false;
    place += numbers.nbytes();
  }
  return true;
}

Tensor Joined::operator()(const Tensor& x_th) const {
  return rounded_ ? ops::quantized_linear(x_th, *rounded_, bias_) : ops::matmul_nt(x_th, weight_, bias_);
}

}  // namespace hone::model
