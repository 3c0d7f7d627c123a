#include "hone/train/rl/turns/scheduler.h"

namespace hone::train::rl {

std::unique_ptr<TurnScheduler> make_scheduler(const TurnConfig& config) {
  if (config.scheduler == "hermes_tools") return make_hermes_tools(config.tools);
  if (config.scheduler == "react_tools") return make_react_tools(config.tools);
  if (config.scheduler == "math_tip_trick") return make_math_tips();
  if (config.scheduler == "thinking_tips_scheduler")
    throw UserError(ExitCode::usage, fmt::format("the scheduler {} is not in this version", config.scheduler),
                    "use math_tip_trick, which doubts an answer within one sequence");
  if (!config.plugins.files.empty() || config.scheduler == "openenv_scheduler") return make_plugin_scheduler(config);
  throw UserError(
      ExitCode::usage, fmt::format("there is no scheduler called {}", config.scheduler),
      "expected hermes_tools, react_tools, math_tip_trick, openenv_scheduler, or a name that `external_plugins` register "
      "(docs/agents.md)");
}

}  // namespace hone::train::rl
