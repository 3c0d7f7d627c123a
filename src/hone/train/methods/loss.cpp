#include "hone/train/methods/loss.h"

namespace hone::train {

LossSum forward_loss(model::CausalLM& model, Loss& loss, const data::Batch& batch) {
  const auto payload = loss.prepare(model, batch);
  const auto outputs = run_forward(model, loss.request(batch));
  return loss.measure(outputs, *payload);
}

// A batch without media has no gradients where only towers train.
void backward_loss(const LossSum& loss, double factor) {
  if (loss.sum.requires_grad()) (loss.sum * factor).backward();
}

std::vector<Metric> batch_metrics(const data::Batch& batch) {
  std::vector<Metric> metrics;
  for (const auto& [name, value] : batch.metrics)
    metrics.push_back({name, at::full({}, value, at::TensorOptions().device(batch.tokens_t.device())), 1});
  return metrics;
}

}  // namespace hone::train
