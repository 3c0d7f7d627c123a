#include "hone/train/rl/turns/scheduler.h"

namespace hone::train::rl {

std::unique_ptr<TurnScheduler> make_scheduler(const TurnConfig& config) {
  if (config.scheduler == "hermes_tools") return make_hermes_tools(config.tools);
  if (config.scheduler == "react_tools") return make_react_tools(config.tools);
  if (config.scheduler == "math_tip_trick") return make_math_tips();
  if (config.scheduler == "thinking_tips_scheduler" || config.scheduler == "openenv_scheduler")
    throw UserError(ExitCode::usage, fmt::format("the scheduler {} is not in this version", config.scheduler),
                    "use hermes_tools, react_tools, math_tip_trick, gym_scheduler, or one that `external_plugins` register");
  if (!config.plugins.files.empty()) return make_plugin_scheduler(config);
  throw UserError(ExitCode::usage, fmt::format("there is no scheduler called {}", config.scheduler),
                  "expected hermes_tools, react_tools, math_tip_trick, or a name that `external_plugins` register "
                  "(docs/agents.md)");
}

}  // namespace hone::train::rl
