#include "hone/train/losses/sft.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "hone/device/memory.h"
#include "hone/model/decoder.h"
#include "hone/model/memory/activation_checkpointing.h"
#include "hone/ops/loss/linear_cross_entropy.h"
#include "hone/ops/loss/vocabulary_shard.h"
#include "hone/parallel/sequence_parallel.h"
#include "hone/train/distributed/metric_reduction.h"
#include "hone/train/losses/linear_divergence.h"
#include "hone/train/losses/router_losses.h"
#include "hone/train/losses/token_logps.h"
#include "hone/train/methods/forward_pass.h"

namespace hone::train {
namespace {

// The sum over labeled tokens of KL(reference || model), differentiable in the model, from the hidden states of both. Logits
// exist a few rows at a time, and once more in the backward pass. `reference` must live until then.
Tensor kl_from_reference(model::CausalLM& reference, const Tensor& reference_hidden_th, const ForwardOutputs& outputs) {
  auto& model = outputs.model;
  const auto& hidden_th = outputs.hidden_th;
  const auto labelled = (outputs.batch.targets_t != ops::kIgnoredTarget).nonzero().squeeze(1);
  const auto trained = trained_of_head(std::as_const(model).head());
  auto sum = at::zeros({}, hidden_th.options().dtype(at::kFloat));
  for (const auto& part : labelled.split(rows_at_once(model, int64_t{48} << 20))) {  // bytes of each of the two
    auto measure = [&reference, &model, wanted = reference_hidden_th.index_select(0, part)](const Tensor& own) {
      Tensor target;
      {
        at::NoGradGuard no_grad;
        target = reference.logits(wanted).to(at::kFloat).log_softmax(1);
      }
      return TensorList{(target.exp() * (target - model.logits(own).to(at::kFloat).log_softmax(1))).sum()};
    };
    sum = sum + model::checkpoint(measure, hidden_th.index_select(0, part), trained).front();
  }
  return sum;
}

Tensor weighted(const Tensor& weights_t, const Tensor& factors_t) {
  return weights_t.defined() ? weights_t * factors_t : factors_t;
}

// Calls body(segment, position) for every position with a target.
template <class Body>
void for_targets(const data::Batch& batch, Body body) {
  auto targets_t = batch.targets_t.to(at::kCPU);
  const auto* target = targets_t.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < batch.segments.count(); ++i)
    for (int64_t t = batch.segments.offsets[static_cast<size_t>(i)]; t < batch.segments.offsets[static_cast<size_t>(i) + 1]; ++t)
      if (target[t] != ops::kIgnoredTarget) body(static_cast<size_t>(i), t);
}

// Correct in every token; a response without a target does not count.
Metric sequence_accuracy(const TokenScores& scores, const data::Batch& batch) {
  auto hits_t = scores.hits_t.to(at::kCPU);
  const bool* hit = hits_t.const_data_ptr<bool>();
  std::vector<int> right(static_cast<size_t>(batch.segments.count()), -1);
  for_targets(batch, [&](size_t segment, int64_t t) { right[segment] = right[segment] != 0 && hit[t]; });
  auto responses = std::count_if(right.begin(), right.end(), [](int state) { return state >= 0; });
  auto sum = at::full({}, std::count(right.begin(), right.end(), 1), scores.logps_t.options());
  return {"seq_acc", sum, static_cast<double>(responses)};
}

// LLaMA-Factory's accuracy: each sample's share of correct tokens; samples count the same, regardless of their length.
Metric mean_accuracy(const TokenScores& scores, const data::Batch& batch) {
  auto hits_t = scores.hits_t.to(at::kCPU);
  const bool* hit = hits_t.const_data_ptr<bool>();
  std::vector<std::pair<int64_t, int64_t>> counts(static_cast<size_t>(batch.segments.count()));  // correct tokens, tokens
  for_targets(batch, [&](size_t segment, int64_t t) { counts[segment].first += hit[t], ++counts[segment].second; });
  double sum = 0, samples = 0;
  for (auto [correct, tokens] : counts)
    if (tokens > 0) sum += static_cast<double>(correct) / static_cast<double>(tokens), ++samples;
  return {"accuracy", at::full({}, sum, scores.logps_t.options()), samples};
}

// As in ms-swift: the weighted loss per token of each channel, under loss_None for rows without a channel.
std::vector<Metric> channel_losses(const TokenScores& scores, const Tensor& weights_t, const data::Batch& batch) {
  auto losses_t = (weights_t.defined() ? -scores.logps_t * weights_t : -scores.logps_t).to(at::kCPU, at::kFloat);
  const float* loss = losses_t.const_data_ptr<float>();
  SumsByName sums;
  for_targets(batch, [&](size_t segment, int64_t t) {
    const auto& channel = batch.channels[segment];
    sums["loss_" + (channel.empty() ? "None" : channel)] += {loss[t], 1};
  });
  std::vector<Metric> metrics;
  for (const auto& [name, total] : sums)
    metrics.push_back({name, at::full({}, total.sum, scores.logps_t.options()), total.count});
  return metrics;
}

// Logits in one chunk give the gradient of a trained head in one product. Only where blocks keep their activations and half of
// the memory is free: a run that fits without them must not fail because of them.
constexpr size_t kLogitsAtOnce = size_t{6} << 30;
bool has_room_for_logits(const model::CausalLM& model, at::Device device) {
  constexpr double kShare = 0.5;
  return device.is_cuda() && device::tensors_take_less_than(kShare, device) &&
         std::ranges::all_of(model.decoder().blocks, [](const auto& block) { return block.recompute == model::Recompute::none; });
}

}  // namespace

void SftLoss::consult(model::CausalLM&, const data::Batch& batch, SftPayload& payload) {
  if (!config_.asft) return;
  at::NoGradGuard no_grad;
  payload.start_hidden_th = run_forward(*start_, {.batch = batch}).hidden_th;
}

LossSum SftLoss::loss(const ForwardOutputs& outputs, const SftPayload& payload) {
  auto& model = outputs.model;
  const auto& batch = outputs.batch;
  const auto& hidden_th = outputs.hidden_th;
  std::optional<TokenScores> scores;
  const bool reports_accuracy = config_.eval_accuracy && !model.training();
  if (config_.dft || config_.asft || config_.channel_loss || config_.sequence_accuracy || reports_accuracy)
    scores = token_scores(model, hidden_th, batch.targets_t);
  const auto& head = std::as_const(model).head();
  auto weights_t = batch.weights_t;
  if (config_.dft || config_.asft) weights_t = weighted(weights_t, scores->logps_t.exp());
  if (config_.eaft) weights_t = weighted(weights_t, (top_entropies(model, hidden_th, batch.targets_t) / 3).pow(*config_.eaft));
  ops::CrossEntropyOptions options{.weights_t = weights_t,
                                   .label_smoothing = config_.label_smoothing,
                                   .target_count = batch.target_count,
                                   .adapters = head.adapters,
                                   .training = model.training()};
  if (head.weight.requires_grad() && has_room_for_logits(model, hidden_th.device())) options.chunk_bytes = kLogitsAtOnce;
  auto* region = model.decoder().region;
  auto entropy =
      region ? ops::linear_cross_entropy(hidden_th, head.weight, head.bias, batch.targets_t, options, *region->vocabulary())
             : ops::linear_cross_entropy(hidden_th, head.weight, head.bias, batch.targets_t, options);
  LossSum result{entropy.sum, {}};
  if (config_.asft) result.sum = result.sum + *config_.asft * kl_from_reference(*start_, payload.start_hidden_th, outputs);
  add_router_losses_per_target(result, outputs, config_.router, sequence_);
  if (config_.channel_loss)
    for (auto& metric : channel_losses(*scores, options.weights_t, batch)) result.metrics.push_back(std::move(metric));
  result.metrics.push_back(config_.sequence_accuracy
                               ? sequence_accuracy(*scores, batch)
                               : Metric{"token_acc", entropy.correct, static_cast<double>(batch.target_count)});
  if (reports_accuracy) result.metrics.push_back(mean_accuracy(*scores, batch));
  return result;
}

}  // namespace hone::train
