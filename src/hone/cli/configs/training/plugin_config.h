// From options to the Python plugins that give rewards.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/rl/rewards/reward.h"

namespace hone::cli {

// --external_plugins, --plugin_python, --plugin_memory_limit, --reward_timeout, --remote_rewards.
void read_plugin_options(const Options& options, train::rl::RewardConfig& rewards);

}  // namespace hone::cli
