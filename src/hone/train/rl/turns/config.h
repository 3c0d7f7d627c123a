// What can be set about rollouts of several turns.
#pragma once
#include "hone/train/rl/rewards/plugin_worker.h"
#include "hone/train/rl/tools/config.h"

namespace hone::train::rl {

struct TurnConfig {
  std::string scheduler;      // hermes_tools, react_tools, math_tip_trick, gym_scheduler, or one that a plugin registers
  int64_t max_turns = 0;      // answers of the model; 0: as many as the scheduler and the context allow
  bool limits_total = false;  // max_completion_length counts all of an episode, not each answer
  ToolConfig tools;
  PluginConfig plugins;
  std::string gym_env;      // of rows whose env_config names none
  bool gym_reward = false;  // what environments gave is a reward of its own, behind the others
};

}  // namespace hone::train::rl
