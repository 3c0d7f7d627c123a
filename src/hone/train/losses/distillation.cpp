#include "hone/train/losses/distillation.h"

#include "hone/ops/loss/linear_cross_entropy.h"
#include "hone/train/methods/forward_input.h"

namespace hone::train {

LossSum DistillationLoss::loss(model::CausalLM& model, const data::Batch& batch) {
  LossSum result;
  const bool generated = !batch.sequence_labels.empty() && batch.sequence_labels.front() == std::vector<float>{kGenerated};
  for (const auto& [name, value] : batch.metrics)
    result.metrics.push_back({name, at::full({}, value, at::TensorOptions().device(batch.tokens_t.device())), 1});
  teacher_.observe(model, batch);
  const auto hidden_th = model.hidden_states(forward_input(batch));
  const auto labelled = ops::labelled_positions(batch.targets_t, batch.target_count);
  const auto ask = [&](const Tensor& positions_n) { return teacher_.scores(model, positions_n); };
  result.sum = linear_divergence(model, hidden_th, labelled, ask, {config_.beta, config_.temperature});
  teacher_.finish();
  if (config_.sft_alpha == 0 || generated) return result;
  const auto& head = std::as_const(model).head();
  const auto entropy = ops::linear_cross_entropy(hidden_th, head.weight, head.bias, batch.targets_t,
                                                 {.target_count = batch.target_count, .adapters = head.adapters});
  result.metrics.push_back({"sft_loss", entropy.sum.detach(), num_items(batch)});
  result.metrics.push_back({"divergence", result.sum.detach(), num_items(batch)});
  result.sum = result.sum + config_.sft_alpha * entropy.sum;
  return result;
}

}  // namespace hone::train
