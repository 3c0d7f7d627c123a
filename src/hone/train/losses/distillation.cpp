#include "hone/train/losses/distillation.h"

#include "hone/model/decoder.h"
#include "hone/ops/loss/vocabulary_shard.h"

namespace hone::train {

data::PayloadCollator DistillationPayload::collator(const TeacherConfig& teacher) {
  if (teacher.servers.size() < 2) return {};
  return [by_channel = teacher.tag_key == "channel"](const std::vector<const data::Sample*>& sequences) {
    auto payload = std::make_shared<DistillationPayload>();
    for (const auto* sample : sequences) payload->tags.push_back(by_channel ? sample->channel : sample->origin.dataset);
    return payload;
  };
}

void DistillationLoss::consult(model::CausalLM& model, const data::Batch& batch, DistillationPayload& payload) {
  payload.observed = teacher_.observe(model, batch, payload.tags);
}

LossSum DistillationLoss::loss(const ForwardOutputs& outputs, const DistillationPayload& payload) {
  auto& model = outputs.model;
  const auto& batch = outputs.batch;
  LossSum result{{}, batch_metrics(batch)};
  const auto labelled = ops::labelled_positions(batch.targets_t, batch.target_count);
  const auto ask = [&](const Tensor& positions_n) { return teacher_.scores(model, payload.observed, positions_n); };
  result.sum = linear_divergence(model, outputs.hidden_th, labelled, ask, {config_.beta, config_.temperature});
  teacher_.finish();
  if (config_.sft_alpha == 0 || payload.is_generated) return result;
  const auto& head = std::as_const(model).head();
  const ops::CrossEntropyOptions options{.target_count = batch.target_count, .adapters = head.adapters};
  auto* region = model.decoder().region;
  const auto entropy = region ? ops::linear_cross_entropy(outputs.hidden_th, head.weight, head.bias, batch.targets_t, options,
                                                          *region->vocabulary())
                              : ops::linear_cross_entropy(outputs.hidden_th, head.weight, head.bias, batch.targets_t, options);
  result.metrics.push_back({"sft_loss", entropy.sum.detach(), num_items(batch)});
  result.metrics.push_back({"divergence", result.sum.detach(), num_items(batch)});
  result.sum = result.sum + config_.sft_alpha * entropy.sum;
  return result;
}

}  // namespace hone::train
