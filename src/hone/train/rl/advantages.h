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

// Rows are completions, grouped by prompt; columns are rewards. NaN: the reward does not apply to this completion.
using RewardTable = std::vector<std::vector<double>>;

// Weighted sums of the rewards.
std::vector<double> total_rewards(const RewardTable& rewards, const std::vector<double>& weights);
// The advantages of `totals`, from which a penalty may have been subtracted.
std::vector<double> advantages_of(const std::vector<double>& totals, const RewardTable& rewards, int64_t generations,
                                  const AdvantageConfig& config);
// Standard deviation of each completion's group, unbiased; 0 in a group of one.
std::vector<double> group_deviations(const std::vector<double>& totals, int64_t generations);
// For each completion, whether the rewards of its group are equal up to rounding: such a group has no learning signal.
std::vector<bool> zero_variance_groups(const std::vector<double>& totals, int64_t generations);

// reward, reward_std, frac_reward_zero_std, rewards/NAME/mean and /std, as ms-swift logs them.
std::vector<std::pair<std::string, double>> reward_metrics(const std::vector<double>& totals, const RewardTable& rewards,
                                                           const std::vector<std::string>& names, int64_t generations,
                                                           RewardScale scale);

}  // namespace hone::train::rl
