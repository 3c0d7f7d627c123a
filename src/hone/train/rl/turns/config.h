// Configuration of multi-turn rollouts.
#pragma once
#include "hone/train/rl/rewards/plugin_worker.h"
#include "hone/train/rl/tools/config.h"

namespace hone::train::rl {

struct TurnConfig {
  std::string scheduler;      // hermes_tools, react_tools, math_tip_trick, thinking_tips_scheduler, gym_scheduler, or a plugin's
  int64_t max_turns = 0;      // completions per episode; 0: as many as the scheduler and the context allow
  bool limits_total = false;  // max_completion_length applies to the full episode, not to each completion
  ToolConfig tools;
  PluginConfig plugins;
  std::string gym_env;      // of rows without one in env_config
  bool gym_reward = false;  // the environment's reward is a separate one, after the others

  bool text_only = false;  // a server or a teacher of the run gets text alone: no turn shows images

  // Whether replies may have images: results of Hermes' tools, and what plugins add.
  bool may_bring_images() const {
    return !text_only && scheduler != "react_tools" && scheduler != "math_tip_trick" && scheduler != "thinking_tips_scheduler";
  }
  // Each completion of an episode trains as a sequence of its own.
  bool splits_episodes() const { return scheduler == "thinking_tips_scheduler"; }
};

}  // namespace hone::train::rl
