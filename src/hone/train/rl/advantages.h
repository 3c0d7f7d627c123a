// Advantages from rewards: group-relative, leave-one-out, batch-normalized.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace hone::train::rl {

enum class Estimator { grpo, rloo, reinforce_plus_plus };
enum class RewardScale { group, none, batch, gdpo };

struct AdvantageConfig {
  Estimator estimator = Estimator::grpo;
  RewardScale scale = RewardScale::group;
  std::vector<double> weights;  // of each reward
};

// Rows are answers, those to one prompt side by side; columns are rewards. NaN: a reward that has nothing to say of this answer.
using RewardTable = std::vector<std::vector<double>>;

// Weighted sums of what the rewards have to say.
std::vector<double> total_rewards(const RewardTable& rewards, const std::vector<double>& weights);
// Of `totals`, which may have had something taken off.
std::vector<double> advantages_of(const std::vector<double>& totals, const RewardTable& rewards, int64_t generations,
                                  const AdvantageConfig& config);
// Of each answer's group, unbiased; 0 in a group of one.
std::vector<double> group_deviations(const std::vector<double>& totals, int64_t generations);
// Of each answer, whether all of its group are worth the same, up to rounding: such a group teaches nothing.
std::vector<bool> zero_variance_groups(const std::vector<double>& totals, int64_t generations);

// reward, reward_std, frac_reward_zero_std, rewards/NAME/mean and /std, as ms-swift logs them.
std::vector<std::pair<std::string, double>> reward_metrics(const std::vector<double>& totals, const RewardTable& rewards,
                                                           const std::vector<std::string>& names, int64_t generations,
                                                           RewardScale scale);

}  // namespace hone::train::rl
