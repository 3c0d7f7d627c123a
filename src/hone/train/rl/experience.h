// Experience of PPO: rewards of single tokens out of scores and divergences, then generalized advantage estimation.
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
  double kl_coef = 0.05;  // weight of the divergence from the reference, at first
  KlEstimator kl_estimator = KlEstimator::k1;
  bool kl_in_reward = true;         // else it is a term of the loss
  std::optional<double> kl_target;  // the weight follows the divergence towards this; unset: it stays
  double kl_horizon = 10000;        // completions over which it does
  double gamma = 1, lam = 0.95;     // of advantage estimation
  bool whiten_rewards = false;
  bool score_norm = false;    // scores are measured by their running mean and deviation
  bool has_end_state = true;  // the state behind a completion has a value too, and gets the score, as in trl from 0.11 on
  std::optional<double> missing_eos_penalty;  // taken off the score of a completion that does not end
};

// What goes from one rollout to the next, the same on all processes.
struct ExperienceState {
  double kl_coef = 0;
  double score_mean = 0, score_variance = 1, score_deviation = 1, score_count = 1e-24;  // trl's running moments

  Json to_json() const;
  static ExperienceState from_json(const Json& json);
};

// A completion of n tokens.
struct Trajectory {
  std::vector<double> logps, ref_logps;  // n each; the second is empty where there is no reference
  std::vector<double> values;            // of n states, or n + 1 where the one behind the last token counts
  double score = 0;

  std::vector<double> advantages = {}, returns = {};  // n and as many as values: what estimate_advantages finds
};

// Scores by their running moments, which they first become a part of. `scores` are those of all processes.
void normalize_scores(std::vector<double>& scores, ExperienceState& state);
// Moves the weight of the divergence, found to be `kl` over so many completions.
void adapt_kl_coef(double kl, int64_t completions, const ExperienceConfig& config, ExperienceState& state);

double divergence(const Trajectory& trajectory, KlEstimator estimator);  // over the whole completion
// Fills in what this process has; `group` joins it with the others, since whitening looks at all completions.
void estimate_advantages(std::vector<Trajectory>& own, double kl_coef, const ExperienceConfig& config, ParallelStrategy& group);

}  // namespace hone::train::rl
