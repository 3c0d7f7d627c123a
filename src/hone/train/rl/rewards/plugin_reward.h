// Rewards that Python plugins register, one worker process for all of a run's.
#pragma once
#include "hone/train/rl/rewards/plugin_worker.h"
#include "hone/train/rl/rewards/reward.h"

namespace hone::train::rl {

// `name` is a key of the plugins' orms. Throws UserError(usage) where no file registers it.
std::unique_ptr<Reward> make_plugin_reward(const std::string& name, std::shared_ptr<PluginWorker> worker);

}  // namespace hone::train::rl
