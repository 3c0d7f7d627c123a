// Experience of PPO: token rewards from scores and KL divergences, then generalized advantage estimation.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hone/base/json.h"
#include "hone/train/distributed/parallel_strategy.h"

namespace hone::train::rl {

enum class KlEstimator { k1, k3 };  // of log-probability ratios: the difference itself, or exp(d) - d - 1 of its negative

struct ExperienceConfig {
  double kl_coef = 0.05;  // initial weight of the KL divergence from the reference
  KlEstimator kl_estimator = KlEstimator::k1;
  bool kl_in_reward = true;         // else it is a term of the loss
  std::optional<double> kl_target;  // adaptive KL: target of the divergence; unset: fixed weight
  double kl_horizon = 10000;        // of the adaptive KL, in completions
  double gamma = 1, lam = 0.95;     // of advantage estimation
  bool whiten_rewards = false;
  bool score_norm = false;    // normalize scores by their running mean and deviation
  bool has_end_state = true;  // the state after a completion has a value too, and gets the score, as in trl since 0.11
  std::optional<double> missing_eos_penalty;  // subtracted from the score of a completion without an end token
};

// State between rollouts, the same on all processes.
struct ExperienceState {
  double kl_coef = 0;
  double score_mean = 0, score_variance = 1, score_deviation = 1, score_count = 1e-24;  // trl's running moments

  Json to_json() const;
  static ExperienceState from_json(const Json& json);
};

// A completion of n tokens.
struct Trajectory {
  std::vector<double> logps, ref_logps;  // n each; the second is empty without a reference
  std::vector<double> values;            // of n states, or n + 1 with the state after the last token
  double score = 0;

  std::vector<double> advantages = {}, returns = {};  // n and the size of values: outputs of estimate_advantages
};

// Normalizes scores by their running moments, which are updated first. `scores` are those of all processes.
void normalize_scores(std::vector<double>& scores, ExperienceState& state);
// Adaptive KL: updates the weight after a mean divergence of `kl` over this number of completions.
void adapt_kl_coef(double kl, int64_t completions, const ExperienceConfig& config, ExperienceState& state);

double divergence(const Trajectory& trajectory, KlEstimator estimator);  // over the full completion
// Fills in this process's trajectories; `group` includes the other processes, since whitening uses all completions.
void estimate_advantages(std::vector<Trajectory>& own, double kl_coef, const ExperienceConfig& config, ParallelStrategy& group);

}  // namespace hone::train::rl
