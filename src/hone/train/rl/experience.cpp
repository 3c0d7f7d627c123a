#include "hone/train/rl/experience.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hone::train::rl {
namespace {

constexpr double kAgainstZeroVariance = 1e-8;

double token_divergence(const Trajectory& trajectory, size_t token, KlEstimator estimator) {
  if (trajectory.ref_logps.empty()) return 0;
  const double moved = trajectory.ref_logps[token] - trajectory.logps[token];
  return estimator == KlEstimator::k1 ? -moved : std::exp(moved) - 1 - moved;
}

// Scales to variance 1 over all processes: trl's masked_whiten. Fewer than two numbers have no variance.
void whiten(std::vector<std::vector<double>*> lists, bool shift_mean, ParallelStrategy& group) {
  double sum = 0, count = 0, squares = 0;
  for (const auto* list : lists)
    for (double value : *list) sum += value, ++count;
  sum = group.sum(sum), count = group.sum(count);
  if (count < 2) return;
  const double mean = sum / count;
  for (const auto* list : lists)
    for (double value : *list) squares += (value - mean) * (value - mean);
  const double scale = 1 / std::sqrt(group.sum(squares) / (count - 1) + kAgainstZeroVariance);
  for (auto* list : lists)
    for (double& value : *list) value = (value - mean) * scale + (shift_mean ? 0 : mean);
}

std::vector<double> token_rewards(const Trajectory& trajectory, double kl_coef, const ExperienceConfig& config) {
  std::vector<double> rewards(trajectory.values.size());
  if (rewards.empty()) return rewards;
  if (config.kl_in_reward)
    for (size_t t = 0; t < trajectory.logps.size(); ++t)
      rewards[t] = -kl_coef * token_divergence(trajectory, t, config.kl_estimator);
  rewards.back() += trajectory.score;
  return rewards;
}

void estimate(Trajectory& trajectory, const std::vector<double>& rewards, const ExperienceConfig& config) {
  const auto& values = trajectory.values;
  trajectory.returns.assign(values.size(), 0);
  double ahead = 0;
  for (size_t t = values.size(); t-- > 0;) {
    const double next = t + 1 < values.size() ? values[t + 1] : 0;
    ahead = rewards[t] + config.gamma * next - values[t] + config.gamma * config.lam * ahead;
    trajectory.returns[t] = ahead + values[t];
  }
  trajectory.advantages.clear();
  for (size_t t = 0; t < trajectory.logps.size(); ++t) trajectory.advantages.push_back(trajectory.returns[t] - values[t]);
}

}  // namespace

Json ExperienceState::to_json() const {
  return {{"kl_coef", kl_coef},
          {"score_mean", score_mean},
          {"score_variance", score_variance},
          {"score_deviation", score_deviation},
          {"score_count", score_count}};
}

ExperienceState ExperienceState::from_json(const Json& json) {
  return {json.at("kl_coef"), json.at("score_mean"), json.at("score_variance"), json.at("score_deviation"),
          json.at("score_count")};
}

void normalize_scores(std::vector<double>& scores, ExperienceState& state) {
  const auto count = static_cast<double>(scores.size());
  double mean = 0, variance = 0;
  for (double score : scores) mean += score / count;
  for (double score : scores) variance += (score - mean) * (score - mean) / count;
  const double delta = mean - state.score_mean, total = state.score_count + count;
  const double squares =
      state.score_variance * state.score_count + delta * delta * state.score_count * count / total + variance * count;
  state.score_mean += delta * count / total;
  state.score_variance = squares / total;
  state.score_deviation = total > 1 ? std::sqrt(squares / (total - 1)) : 0;
  state.score_count = total;
  const double scale = state.score_deviation + static_cast<double>(std::numeric_limits<float>::epsilon());
  for (double& score : scores) score = (score - state.score_mean) / scale;
}

void adapt_kl_coef(double kl, int64_t completions, const ExperienceConfig& config, ExperienceState& state) {
  if (!config.kl_target) return;
  const double error = std::clamp(kl / *config.kl_target - 1, -0.2, 0.2);
  state.kl_coef *= 1 + error * static_cast<double>(completions) / config.kl_horizon;
}

double divergence(const Trajectory& trajectory, KlEstimator estimator) {
  double sum = 0;
  for (size_t t = 0; t < trajectory.logps.size(); ++t) sum += token_divergence(trajectory, t, estimator);
  return sum;
}

void estimate_advantages(std::vector<Trajectory>& own, double kl_coef, const ExperienceConfig& config, ParallelStrategy& group) {
  std::vector<std::vector<double>> rewards;
  for (const auto& trajectory : own) rewards.push_back(token_rewards(trajectory, kl_coef, config));
  std::vector<std::vector<double>*> all, advantages;
  for (auto& list : rewards) all.push_back(&list);
  if (config.whiten_rewards) whiten(all, /*shift_mean=*/false, group);
  for (size_t i = 0; i < own.size(); ++i) {
    estimate(own[i], rewards[i], config);
    advantages.push_back(&own[i].advantages);
  }
  whiten(advantages, /*shift_mean=*/true, group);
}

}  // namespace hone::train::rl
