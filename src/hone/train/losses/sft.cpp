#include "hone/train/losses/sft.h"

#include "hone/ops/linear_cross_entropy.h"
#include "hone/train/losses/token_logps.h"

namespace hone::train {
namespace {

Tensor weights_with_probability(model::CausalLM& model, const Tensor& hidden_th, const data::Batch& batch) {
  auto probability_t = token_logps(model, hidden_th, batch.targets_t).exp();
  return batch.weights_t.defined() ? batch.weights_t * probability_t : probability_t;
}

}  // namespace

LossSum SftLoss::loss(model::CausalLM& model, const data::Batch& batch) {
  auto hidden_th = model.hidden({batch.tokens_t, batch.positions_t, batch.segments});
  const auto& head = std::as_const(model).head();
  ops::CrossEntropyOptions options{.weights_t = batch.weights_t,
                                   .label_smoothing = config_.label_smoothing,
                                   .target_count = batch.target_count,
                                   .adapters = head.adapters,
                                   .training = model.training()};
  if (config_.dft) options.weights_t = weights_with_probability(model, hidden_th, batch);
  auto entropy = ops::linear_cross_entropy(hidden_th, head.weight, head.bias, batch.targets_t, options);
  return {entropy.sum, {{"token_acc", entropy.correct, static_cast<double>(batch.target_count)}}};
}

}  // namespace hone::train
