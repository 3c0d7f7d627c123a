#include "hone/train/losses/policy.h"

#include <algorithm>
#include <cmath>

#include "hone/model/decoder.h"
#include "hone/train/distributed/parallel_strategy.h"
#include "hone/train/distributed/sequence_split.h"
#include "hone/train/losses/policy_tokens.h"
#include "hone/train/losses/token_logps.h"

namespace hone::train {
namespace {

// The k3 estimator of the KL divergence from the reference, exp(d) - d - 1, clamped against overflow.
Tensor kl_to_reference(const Tensor& reference_n, const Tensor& logps_n) {
  auto difference = (reference_n - logps_n).clamp(-20, 20);
  return (difference.exp() - difference - 1).clamp(-10, 10);
}

// Some sequences of a batch with the outputs of the pass that the losses need.
ForwardOutputs sequences_of(const ForwardOutputs& outputs, int64_t first, int64_t count, int64_t target_count) {
  const auto& segments = outputs.batch.segments;
  const auto begin = segments.offsets[static_cast<size_t>(first)];
  const auto length = segments.offsets[static_cast<size_t>(first + count)] - begin;
  ForwardOutputs part{.model = outputs.model, .batch = outputs.batch, .hidden_th = outputs.hidden_th.narrow(0, begin, length)};
  auto& batch = part.batch;
  batch.targets_t = batch.targets_t.narrow(0, begin, length);
  if (batch.weights_t.defined()) batch.weights_t = batch.weights_t.narrow(0, begin, length);
  batch.segments = {};
  for (int64_t i = first; i < first + count; ++i) batch.segments.append(segments.length(i));
  batch.target_count = target_count;
  return part;
}

}  // namespace

Tensor policy_logps(model::CausalLM& model, const data::Batch& batch, double temperature,
                    const parallel::SequenceParallel* sequence) {
  const auto part = sequence ? own_part(batch, *sequence) : batch;
  auto logps_t =
      run_forward(model, {.batch = part, .rows_r = sequence ? Tensor() : rows_read(part)}).target_logps(temperature).logps_t;
  if (auto* pipeline = model.decoder().pipeline) pipeline->broadcast_from_last(logps_t);
  return sequence ? whole_rows(logps_t, batch.segments.total(), *sequence) : logps_t;
}

double PolicyLoss::num_items(const data::Batch& batch) const {
  return sequence_ && !sequence_->is_first_rank() ? 0 : items_of(data::payload_of<PolicyPayload>(batch));
}

double PolicyLoss::items_of(const PolicyPayload& payload) const {
  const auto completions = static_cast<double>(payload.advantages_s.size(0));
  switch (config_.objective) {
    case PolicyObjective::grpo:
    case PolicyObjective::sapo:
      return completions;
    case PolicyObjective::dr_grpo:
      return completions * static_cast<double>(config_.max_completion_length);
    case PolicyObjective::bnpo:
    case PolicyObjective::real:
      return 1;
    case PolicyObjective::dapo:
    case PolicyObjective::cispo:
    case PolicyObjective::fipo:
      break;
  }
  return completions * static_cast<double>(payload.token_share);
}

Tensor PolicyLoss::extreme(const Tensor& value, bool greatest) const {
  if (!group_ || group_->size() == 1) return value;
  auto all = at::zeros({group_->size()}, value.options());
  all[group_->rank()].copy_(value);
  group_->all_reduce(all);
  return greatest ? all.max() : all.min();
}

void PolicyLoss::report_entropies(const PolicyTokens& tokens, const Tensor& entropies_n, std::vector<Metric>& metrics) const {
  auto ones = at::ones_like(entropies_n);
  auto means_s = sum_by_sequence(entropies_n, tokens.completion_n, tokens.completions) /
                 sum_by_sequence(ones, tokens.completion_n, tokens.completions).clamp_min(1);
  metrics.push_back({"entropy/mean", means_s.sum(), static_cast<double>(tokens.completions)});
  metrics.push_back({"entropy/max", extreme(means_s.max(), true), 1});
  metrics.push_back({"entropy/min", extreme(means_s.min(), false), 1});
}

PolicyTokens PolicyLoss::tokens_of(const ForwardOutputs& outputs, const PolicyPayload& payload,
                                   std::vector<Metric>& metrics) const {
  const auto& batch = outputs.batch;
  // If sequences are split over processes, each process computes the full loss, with the gradients of its own part.
  auto full = [&](const Tensor& values_t) {
    return sequence_ ? whole_rows(values_t, batch.segments.total(), *sequence_) : values_t;
  };
  auto logps_t = full(outputs.target_logps(config_.temperature).logps_t);
  const auto positions = ops::labelled_positions(full(batch.targets_t), sequence_ ? -1 : batch.target_count);
  auto labelled = [&](const Tensor& values_t) { return values_t.defined() ? values_t.index_select(0, positions) : values_t; };
  PolicyTokens tokens{.logps_n = labelled(logps_t),
                      .old_n = labelled(payload.old_logps_t),
                      .reference_n = labelled(payload.ref_logps_t),
                      .advantages_n = {},
                      .sampler_n = labelled(payload.rollout_logps_t),
                      .teacher_n = labelled(payload.teacher_logps_t),
                      .mask_n = {},
                      .uncertain_n = {},
                      .completion_n = labelled(sequence_ids(batch.segments, logps_t.device())),
                      .advantages_s = payload.advantages_s,
                      .truncated_s = payload.truncated_s,
                      .completions = payload.advantages_s.size(0),
                      .group_size = payload.group_size};
  if (!tokens.old_n.defined()) tokens.old_n = tokens.logps_n.detach();
  tokens.advantages_n = payload.advantages_t.defined() ? labelled(payload.advantages_t) : tokens.per_token(tokens.advantages_s);
  tokens.mask_n = at::ones_like(tokens.old_n);
  if (config_.report_entropy || config_.top_entropy < 1) {
    auto entropies_n =
        labelled(full(token_entropies(outputs.model, outputs.hidden_th.detach(), batch.targets_t, 1 / config_.temperature)));
    if (config_.report_entropy) report_entropies(tokens, entropies_n, metrics);
    if (config_.top_entropy < 1 && entropies_n.numel() > 0) {
      auto threshold = at::quantile(entropies_n, 1 - config_.top_entropy);
      tokens.uncertain_n = (entropies_n >= threshold).to(at::kFloat);
      metrics.push_back({"entropy/threshold", threshold, 1});
    }
  }
  if (config_.overlong_filter) tokens.mask_n = 1 - tokens.per_token(tokens.truncated_s);
  return tokens;
}

Tensor PolicyLoss::log_weights(const PolicyTokens& tokens) const {
  if (config_.level == RatioLevel::token) return tokens.log_ratio();
  auto by_completion = tokens.per_token(tokens.mean_s(tokens.log_ratio()));
  if (config_.level == RatioLevel::sequence) return by_completion;
  return tokens.logps_n - tokens.logps_n.detach() + by_completion.detach();
}

// FIPO: weights of tokens by the discounted log-ratio of the tokens after them.
Tensor PolicyLoss::fipo_influence(const PolicyTokens& tokens, const Tensor& ratio, std::vector<Metric>& metrics) const {
  at::NoGradGuard no_grad;
  auto moved = tokens.log_ratio() * tokens.mask_n;
  if (config_.delta) moved = at::where(ratio > *config_.delta, at::zeros_like(moved), moved);
  const double discount = std::pow(2, -1 / config_.fipo_half_life);
  auto future = discounted_futures(moved, tokens.completion_n, discount);
  auto influence = (future * tokens.mask_n).exp();
  if (config_.fipo_clip > 0)
    influence = influence.clamp(config_.fipo_clip_above_only ? 1 : 1 - config_.fipo_clip, 1 + config_.fipo_clip);
  auto safe = (tokens.advantages_n >= 0).logical_or(ratio <= config_.fipo_safe_ratio);
  influence = at::where(safe, influence, influence.clamp(0.8, 1));
  metrics.push_back({"fipo/future_kl_mean", tokens.mean(future), 1});
  metrics.push_back({"fipo/influence_weight_mean", tokens.mean(influence), 1});
  metrics.push_back({"fipo/safety_keep_ratio", tokens.mean(safe.to(at::kFloat)), 1});
  return influence;
}

Tensor PolicyLoss::token_losses(const PolicyTokens& tokens, Tensor& ratio, std::vector<Metric>& metrics) const {
  const auto& advantages = tokens.advantages_n;
  switch (config_.objective) {
    case PolicyObjective::cispo:
      return -ratio.clamp_max(config_.epsilon_high).detach() * advantages * tokens.logps_n;
    case PolicyObjective::real:
      return at::zeros_like(tokens.logps_n);
    case PolicyObjective::sapo: {
      auto gate = [&](double tau) { return at::sigmoid(tau * (ratio - 1)) * (4 / tau); };
      return -at::where(advantages > 0, gate(config_.sapo_good), gate(config_.sapo_bad)) * advantages;
    }
    default:
      break;
  }
  auto influence = config_.objective == PolicyObjective::fipo ? fipo_influence(tokens, ratio, metrics) : Tensor();
  auto clipped = ratio.clamp(1 - config_.epsilon_low, 1 + config_.epsilon_high);
  if (config_.delta) ratio = ratio.clamp_max(*config_.delta);
  auto losses = -at::min(ratio * advantages, clipped * advantages);
  return influence.defined() ? losses * influence : losses;
}

// REAL: a contrastive loss over the completions of a group, by their mean log-ratio; those with a positive advantage rank higher.
Tensor PolicyLoss::group_loss(const PolicyTokens& tokens) const {
  auto scores_gk = tokens.mean_s(tokens.log_ratio()).view({-1, tokens.group_size}) / config_.real_temperature;
  auto good_gk = tokens.mean_s(tokens.advantages_n).view({-1, tokens.group_size}) > 0;
  auto both_g = good_gk.any(1).logical_and(good_gk.logical_not().any(1)).to(at::kFloat);
  auto zeros = at::zeros({scores_gk.size(0), 1}, scores_gk.options());
  auto against = [&](const Tensor& values, const Tensor& leave_out) {
    return at::logsumexp(at::cat({values.masked_fill(leave_out, -HUGE_VAL), zeros}, 1), {1});
  };
  auto losses_g = against(scores_gk, good_gk) + against(-scores_gk, good_gk.logical_not());
  return (losses_g * both_g).sum() / static_cast<double>(scores_gk.size(0));
}

Tensor PolicyLoss::summed(const PolicyTokens& tokens, const Tensor& losses_n) const {
  switch (config_.objective) {
    case PolicyObjective::grpo:
    case PolicyObjective::sapo:
      return tokens.mean_s(losses_n).sum();
    case PolicyObjective::bnpo:
      return tokens.mean(losses_n);
    case PolicyObjective::real:
      return group_loss(tokens) + tokens.mean(losses_n);
    default:
      return (losses_n * tokens.mask_n).sum();
  }
}

void PolicyLoss::report_clipping(const PolicyTokens& tokens, const Tensor& ratio, std::vector<Metric>& metrics) const {
  auto fraction = [&](const Tensor& which) { return tokens.mean(which.to(at::kFloat)); };
  auto good = tokens.advantages_n > 0, bad = tokens.advantages_n < 0;
  if (config_.objective == PolicyObjective::sapo || config_.objective == PolicyObjective::real) return;
  if (config_.objective == PolicyObjective::cispo) {
    metrics.push_back({"cispo_clip_ratio", fraction((ratio > config_.epsilon_high).logical_and(good)), 1});
    return;
  }
  auto below = (ratio < 1 - config_.epsilon_low).logical_and(bad), above = (ratio > 1 + config_.epsilon_high).logical_and(good);
  auto low = fraction(below), high = fraction(above);
  metrics.push_back({"clip_ratio/low_mean", low, 1});
  metrics.push_back({"clip_ratio/low_min", extreme(low, false), 1});
  metrics.push_back({"clip_ratio/high_mean", high, 1});
  metrics.push_back({"clip_ratio/high_max", extreme(high, true), 1});
  metrics.push_back({"clip_ratio/region_mean", fraction(below.logical_or(above)), 1});
}

// SDAR: distills the teacher at tokens where it is more confident than the policy.
Tensor PolicyLoss::sdar_loss(const PolicyTokens& tokens, std::vector<Metric>& metrics) const {
  const auto gap_n = tokens.teacher_n - tokens.logps_n.detach();
  const auto gate_n = at::sigmoid(config_.sdar_gate_beta * gap_n);
  const auto loss = tokens.mean(gate_n * (tokens.teacher_n - tokens.logps_n));
  metrics.push_back({"sdar/gate_mean", tokens.mean(gate_n), 1});
  metrics.push_back({"sdar/gate_active_ratio", tokens.mean((gate_n > 0.5).to(at::kFloat)), 1});
  metrics.push_back({"sdar/teacher_gap_mean", tokens.mean(gap_n), 1});
  metrics.push_back({"sdar/loss", loss.detach(), 1});
  return loss;
}

// CHORD: the mean SFT loss of the tokens of expert rows, at temperature 1.
Tensor PolicyLoss::demonstration_loss(const ForwardOutputs& outputs, const PolicyPayload& payload) const {
  const auto rows = sequences_of(outputs, outputs.batch.segments.count() - payload.demonstrations, payload.demonstrations,
                                 payload.demonstrated_targets);
  const auto logps_t = rows.target_logps().logps_t;
  auto losses_t = -logps_t;
  if (config_.weight_demonstrations) {
    const auto probabilities_t = logps_t.detach().exp();
    losses_t = losses_t * (probabilities_t * (1 - probabilities_t));
  }
  if (rows.batch.weights_t.defined()) losses_t = losses_t * rows.batch.weights_t;
  return losses_t.sum() / static_cast<double>(std::max<int64_t>(1, payload.demonstrated_targets));
}

LossSum PolicyLoss::loss(const ForwardOutputs& outputs, const PolicyPayload& payload) {
  if (payload.demonstrations == 0) {
    auto result = completion_loss(outputs, payload);
    add_router_losses(result, outputs, router_, items_of(payload), {sequence_, payload.advantages_s.size(0)});
    count_once(result, sequence_);
    return result;
  }
  const auto& batch = outputs.batch;
  auto result = completion_loss(sequences_of(outputs, 0, batch.segments.count() - payload.demonstrations,
                                             batch.target_count - payload.demonstrated_targets),
                                payload);
  const auto loss = demonstration_loss(outputs, payload);
  result.sum = (1 - payload.mu) * result.sum + payload.mu * num_items(batch) * loss;
  add_router_losses(result, outputs, router_, num_items(batch));
  result.metrics.push_back({"chord/sft_loss", loss.detach(), 1});
  result.metrics.push_back({"chord/mu", at::full({}, payload.mu, loss.options().requires_grad(false)), 1});
  return result;
}

LossSum PolicyLoss::completion_loss(const ForwardOutputs& outputs, const PolicyPayload& payload) const {
  LossSum result{{}, batch_metrics(outputs.batch)};
  auto tokens = tokens_of(outputs, payload, result.metrics);
  auto ratio = log_weights(tokens).exp();
  auto losses_n = token_losses(tokens, ratio, result.metrics);
  if (tokens.uncertain_n.defined()) losses_n = losses_n * tokens.uncertain_n;
  Tensor divergence_n, correction_n;
  if (config_.reference_weight > 0 && tokens.reference_n.defined()) {
    divergence_n = kl_to_reference(tokens.reference_n, tokens.logps_n);
    losses_n = losses_n + config_.reference_weight * divergence_n;
  }
  if (tokens.sampler_n.defined()) {
    RolloutDrift drift{tokens.old_n, tokens.sampler_n, tokens.mask_n, tokens.completion_n, tokens.completions};
    correction_n = rollout_weights(drift, config_.correction);
    report_drift(drift, correction_n, config_.correction, result.metrics);
    if (tokens.old_n.numel() > 0) compare_models([&] { return (tokens.old_n - tokens.sampler_n).abs().mean().item<double>(); });
  }
  if (correction_n.defined()) losses_n = losses_n * correction_n;
  if (config_.off_policy_mask_delta) {
    const auto& before_n = tokens.sampler_n.defined() ? tokens.sampler_n : tokens.old_n;
    auto drift_s = tokens.mean_s((before_n - tokens.logps_n).detach());
    auto kept_s = (drift_s > *config_.off_policy_mask_delta).logical_and(tokens.advantages_s < 0).logical_not().to(at::kFloat);
    tokens.mask_n = tokens.mask_n * tokens.per_token(kept_s);
  }
  result.sum = summed(tokens, losses_n);
  if (config_.sdar_coef > 0 && tokens.teacher_n.defined())
    result.sum = result.sum + config_.sdar_coef * items_of(payload) * sdar_loss(tokens, result.metrics);
  at::NoGradGuard no_grad;
  if (divergence_n.defined()) result.metrics.push_back({"kl", tokens.mean(divergence_n), 1});
  report_clipping(tokens, ratio, result.metrics);
  return result;
}

}  // namespace hone::train
