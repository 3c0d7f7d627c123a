// What all methods share that learn from completions of their own: how they are sampled, and what they are worth.
#pragma once
#include <string_view>

#include "hone/cli/options.h"
#include "hone/train/run.h"

namespace hone::cli {

// Whether completions come from rollout servers.
bool uses_rollout_servers(const Options& options);
// Where rewards come from: --external_plugins, --plugin_python, --plugin_memory_limit, --reward_timeout, --remote_rewards.
void read_plugin_options(const Options& options, train::rl::RewardConfig& rewards);
void read_sampling(const Options& options, train::rl::ReinforcementConfig& config);
// `method` as messages call it. Throws UserError(usage) where there is no reward.
void read_rewards(const Options& options, std::string_view method, train::TrainingJob& job,
                  train::rl::ReinforcementConfig& config);

}  // namespace hone::cli
