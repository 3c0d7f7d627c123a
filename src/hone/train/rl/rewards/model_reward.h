// A reward model as a reward: by its score, or by the number that it writes when asked.
#pragma once
#include "hone/train/methods/reward_model.h"
#include "hone/train/rl/rewards/reward.h"

namespace hone::train::rl {

std::unique_ptr<Reward> make_model_reward(const RewardModelConfig& config);
// In generative_reward.cpp; of a config with `generates`.
std::unique_ptr<Reward> make_generative_reward(const RewardModelConfig& config);

}  // namespace hone::train::rl
