// A reward model as a reward.
#pragma once
#include "hone/train/methods/reward_model.h"
#include "hone/train/rl/rewards/reward.h"

namespace hone::train::rl {

std::unique_ptr<Reward> make_model_reward(const RewardModelConfig& config);

}  // namespace hone::train::rl
