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

}  // namespace

Joined Joined::of(const std::vector<Linear*>& layers) {
  at::NoGradGuard no_grad;
  Joined joined;
  std::vector<Tensor*> weights, biases;
  for (auto* layer : layers) {
    weights.push_back(&layer->weight);
    if (layer->bias.defined()) biases.push_back(&layer->bias);
  }
  joined.weight_ = laid_end_to_end(weights);
  if (biases.size() == layers.size()) joined.bias_ = laid_end_to_end(biases);
  return joined;
}

bool Joined::serves(std::initializer_list<const Linear*> layers) const {
  if (!weight_.defined()) return false;
  const auto* place = static_cast<const std::byte*>(weight_.const_data_ptr());
  for (const auto* layer : layers) {
    if (layer->is_tuned() || layer->quantized || layer->weight.const_data_ptr() != place || layer->bias.defined() != bias_.defined()) return false;
    place += layer->weight.nbytes();
  }
  return true;
}

Tensor Joined::operator()(const Tensor& x_th) const { return ops::matmul_nt(x_th, weight_, bias_); }

}  // namespace hone::model
