#include "hone/train/losses/distillation.h"

#include "hone/base/error.h"
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

namespace {

// For each position of `batch`, that of the same token in the teacher's batch; 0 in prompts.
Tensor positions_in(const data::Batch& seen, const data::Batch& batch, const std::vector<int64_t>& completion_lengths) {
  std::vector<int64_t> positions(static_cast<size_t>(batch.segments.total()));
  for (size_t i = 0; i < completion_lengths.size(); ++i)
    for (int64_t back = 1; back <= completion_lengths[i] + 1; ++back)  // from the position before the first token on
      positions[static_cast<size_t>(batch.segments.offsets[i + 1] - back)] = seen.segments.offsets[i + 1] - back;
  return at::tensor(positions);
}

}  // namespace

void DistillationLoss::consult(model::CausalLM& model, const data::Batch& batch, DistillationPayload& payload) {
  if (!payload.teacher_batch) {
    payload.observed = teacher_.observe(model, batch, payload.tags);
    return;
  }
  HONE_CHECK(batch.tokens_t.size(0) == batch.segments.total(), "rows with a teacher_prompt are split over processes");
  auto& observed = payload.observed;
  observed = teacher_.observe(model, payload.teacher_batch->to(batch.tokens_t.device()), payload.tags);
  const auto positions_t = positions_in(*payload.teacher_batch, batch, payload.completion_lengths);
  for (auto* rows : {&observed.hidden_th, &observed.scores_tk, &observed.indices_tk})
    if (rows->defined()) *rows = rows->index_select(0, positions_t.to(rows->device()));
}

LossSum DistillationLoss::loss(const ForwardOutputs& outputs, const DistillationPayload& payload) {
  auto& model = outputs.model;
  const auto& batch = outputs.batch;
  LossSum result{{}, batch_metrics(batch)};
  const auto labelled = ops::labelled_positions(batch.targets_t, batch.target_count);
  const auto ask = [&](const Tensor& positions_n) { return teacher_.scores(model, payload.observed, positions_n); };
  const auto divergence = linear_divergence(model, outputs.hidden_th, labelled, ask, {config_.beta, config_.temperature});
  result.sum = divergence;
  teacher_.finish();
  add_router_losses_per_target(result, outputs, router_, sequence_);
  if (config_.sft_alpha == 0 || payload.is_generated) return result;
  const auto& head = std::as_const(model).head();
  const ops::CrossEntropyOptions options{.target_count = batch.target_count, .adapters = head.adapters};
  auto* region = model.decoder().region;
  const auto entropy = region ? ops::linear_cross_entropy(outputs.hidden_th, head.weight, head.bias, batch.targets_t, options,
                                                          *region->vocabulary())
                              : ops::linear_cross_entropy(outputs.hidden_th, head.weight, head.bias, batch.targets_t, options);
  result.metrics.push_back({"sft_loss", entropy.sum.detach(), num_items(batch)});
  result.metrics.push_back({"divergence", divergence.detach(), num_items(batch)});
  result.sum = result.sum + config_.sft_alpha * entropy.sum;
  return result;
}

}  // namespace hone::train
