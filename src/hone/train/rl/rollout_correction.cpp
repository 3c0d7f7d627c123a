#include "hone/train/rl/rollout_correction.h"

#include "hone/train/losses/token_logps.h"

namespace hone::train {
namespace {

constexpr double kFarthest = 20;           // clamp of a log-ratio
constexpr double kLargestDivergence = 10;  // clamp of a token's divergence

Tensor drift_mean(const RolloutDrift& drift, const Tensor& values_n) {
  return (values_n * drift.mask_n).sum() / drift.mask_n.sum().clamp_min(1);
}

Tensor means_by_sequence(const RolloutDrift& drift, const Tensor& values_n) {
  return sum_by_sequence(values_n * drift.mask_n, drift.completion_n, drift.num_completions) /
         sum_by_sequence(drift.mask_n, drift.completion_n, drift.num_completions).clamp_min(1);
}

Tensor log_ratios(const RolloutDrift& drift) { return (drift.trainer_n - drift.sampler_n) * drift.mask_n; }

// The geometric mean over a completion.
Tensor sequence_ratios(const RolloutDrift& drift) {
  return means_by_sequence(drift, log_ratios(drift).clamp(-kFarthest, kFarthest)).exp();
}

bool is_by_sequence(RolloutCorrectionMode mode) {
  return mode == RolloutCorrectionMode::sequence_truncate || mode == RolloutCorrectionMode::sequence_mask;
}

Tensor clipped_part(const RolloutDrift& drift, const Tensor& ratios_n, const RolloutCorrectionConfig& config) {
  if (is_by_sequence(config.mode)) return (sequence_ratios(drift) > config.threshold).to(at::kFloat).mean();
  return drift_mean(drift, (ratios_n > config.threshold).to(at::kFloat));
}

void report_corrections(const RolloutDrift& drift, const Tensor& ratios_n, const Tensor& weights_n,
                        const RolloutCorrectionConfig& config, std::vector<Metric>& metrics) {
  auto bounded = weights_n.clamp(1 / config.threshold, config.threshold);
  auto normalized = bounded / (drift_mean(drift, bounded) + 1e-8);
  metrics.push_back({"rollout_correction/is_weight_mean", drift_mean(drift, weights_n), 1});
  metrics.push_back({"rollout_correction/ess", 1 / drift_mean(drift, normalized.square()).clamp_min(1e-10), 1});
  metrics.push_back({"rollout_correction/clipped_frac", clipped_part(drift, ratios_n, config), 1});
}

void report_distances(const RolloutDrift& drift, const Tensor& log_ratio_n, const Tensor& ratios_n,
                      std::vector<Metric>& metrics) {
  auto training_s = means_by_sequence(drift, drift.trainer_n), rollout_s = means_by_sequence(drift, drift.sampler_n);
  auto moved_s = rollout_s - training_s;
  const auto add = [&](const char* name, const Tensor& value) {
    metrics.push_back({std::string("rollout_correction/") + name, value, 1});
  };
  const auto bounded_n = log_ratio_n.clamp(-kFarthest, kFarthest);
  add("kl", -drift_mean(drift, log_ratio_n));  // KL(rollout || training), estimated on the rollout's samples
  add("k3_kl", drift_mean(drift, (bounded_n.exp() - bounded_n - 1).clamp_max(kLargestDivergence)));
  add("training_ppl", (-training_s).exp().mean());
  add("training_log_ppl", -training_s.mean());
  add("rollout_ppl", (-rollout_s).exp().mean());
  add("rollout_log_ppl", -rollout_s.mean());
  add("log_ppl_diff", moved_s.mean());
  add("log_ppl_abs_diff", moved_s.abs().mean());
  add("log_ppl_diff_max", moved_s.max());
  add("log_ppl_diff_min", moved_s.min());
  add("ppl_ratio", moved_s.exp().mean());
  add("chi2_token", drift_mean(drift, ratios_n.square()) - 1);
  add("chi2_seq", sequence_ratios(drift).square().mean() - 1);
}

}  // namespace

Tensor rollout_weights(const RolloutDrift& drift, const RolloutCorrectionConfig& config) {
  at::NoGradGuard no_grad;
  auto ratios_n = log_ratios(drift).clamp(-kFarthest, kFarthest).exp();
  switch (config.mode) {
    case RolloutCorrectionMode::none:
      return {};
    case RolloutCorrectionMode::token_truncate:
      return ratios_n.clamp_max(config.threshold);
    case RolloutCorrectionMode::token_mask:
      return ratios_n * (ratios_n <= config.threshold);
    case RolloutCorrectionMode::sequence_truncate:
      return sequence_ratios(drift).clamp_max(config.threshold).index_select(0, drift.completion_n);
    case RolloutCorrectionMode::sequence_mask:
      return ratios_n * (sequence_ratios(drift) <= config.threshold).index_select(0, drift.completion_n);
  }
  return {};
}

void report_drift(const RolloutDrift& drift, const Tensor& weights_n, const RolloutCorrectionConfig& config,
                  std::vector<Metric>& metrics) {
  at::NoGradGuard no_grad;
  if (drift.trainer_n.numel() == 0) return;
  auto log_ratio_n = log_ratios(drift), ratios_n = log_ratio_n.clamp(-kFarthest, kFarthest).exp();
  const auto& applied_n = weights_n.defined() ? weights_n : ratios_n;
  metrics.push_back({"sampling/sampling_logp_difference/mean", drift_mean(drift, log_ratio_n.abs()), 1});
  metrics.push_back({"sampling/sampling_logp_difference/max", log_ratio_n.abs().max(), 1});
  metrics.push_back({"sampling/importance_sampling_ratio/min", applied_n.min(), 1});
  metrics.push_back({"sampling/importance_sampling_ratio/mean", drift_mean(drift, applied_n), 1});
  metrics.push_back({"sampling/importance_sampling_ratio/max", applied_n.max(), 1});
  if (config.report || weights_n.defined()) report_distances(drift, log_ratio_n, ratios_n, metrics);
  if (weights_n.defined()) report_corrections(drift, ratios_n, weights_n, config, metrics);
}

}  // namespace hone::train
