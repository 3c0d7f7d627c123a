// Settings common to all methods with rollouts: sampling, rewards, turns.
#pragma once
#include <string_view>

#include "hone/cli/options.h"
#include "hone/train/rl/config.h"
#include "hone/train/run.h"

namespace hone::cli {

// Whether completions come from rollout servers.
bool uses_rollout_servers(const Options& options);
// The source of rewards: --external_plugins, --plugin_python, --plugin_memory_limit, --reward_timeout, --remote_rewards.
void read_plugin_options(const Options& options, train::rl::RewardConfig& rewards);
void read_sampling(const Options& options, train::rl::ReinforcementConfig& config);
// `method` as in messages. Throws UserError(usage) if there is no reward.
void read_rewards(const Options& options, std::string_view method, train::TrainingJob& job,
                  train::rl::ReinforcementConfig& config);

// Multi-turn rollouts. Call it after sampling and rewards. Throws UserError(usage) for incompatible settings, before a model is
// loaded.
void read_turns(const Options& options, train::rl::ReinforcementConfig& config);
// For runs without rollouts. Throws UserError(usage) if turns are requested.
void refuse_turns(const Options& options, std::string_view method);

}  // namespace hone::cli
