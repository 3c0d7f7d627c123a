#include "hone/cli/configs/training/turn_config.h"

#include "hone/cli/arguments/generation.h"
#include "hone/cli/configs/training/rollout_config.h"
#include "hone/train/rl/turns/scheduler.h"

namespace hone::cli {
namespace {

bool uses_tools(const train::rl::TurnConfig& turns) {
  return turns.scheduler == "hermes_tools" || turns.scheduler == "react_tools";
}

void read_tools(const TurnArguments& args, train::rl::TurnConfig& turns) {
  auto& tools = turns.tools;
  tools.servers = *args.tool_servers;
  tools.mcp_servers = *args.mcp_servers;
  tools.allowed = *args.allowed_tools;
  tools.timeout = *args.tool_timeout;
  tools.response_limit = *args.tool_response_limit;
  tools.allow_remote = *args.remote_tools;
  const bool has_servers = !tools.servers.empty() || !tools.mcp_servers.empty();
  if (has_servers && !uses_tools(turns))
    throw UserError(
        ExitCode::usage, fmt::format("the scheduler {} calls no tools", turns.scheduler.empty() ? "(none)" : turns.scheduler),
        fmt::format("set {} hermes_tools or react_tools, or leave the servers out", args.multi_turn_scheduler.flag()));
  if (uses_tools(turns) && !has_servers)
    throw UserError(ExitCode::usage,
                    fmt::format("{} {} needs a server of tools", args.multi_turn_scheduler.flag(), turns.scheduler),
                    fmt::format("name one: {} http://127.0.0.1:9000/call, or {} http://127.0.0.1:9000/mcp (docs/agents.md)",
                                args.tool_servers.flag(), args.mcp_servers.flag()));
}

}  // namespace

void refuse_turns(const Options& options, std::string_view method) {
  const TurnArguments args(options);
  if (!args.multi_turn_scheduler.has_value() && !args.gym_env.has_value()) return;
  throw UserError(ExitCode::usage, fmt::format("{} does not support multi-turn rollouts", method),
                  fmt::format("leave {} out, or let completions be generated", args.multi_turn_scheduler.flag()));
}

void read_turns(const Options& options, train::rl::ReinforcementConfig& config) {
  const TurnArguments args(options);
  if (!args.multi_turn_scheduler.exists()) return;
  train::rl::TurnConfig turns;
  if (args.multi_turn_scheduler.has_value()) turns.scheduler = *args.multi_turn_scheduler;
  if (args.gym_env.has_value()) turns.gym_env = *args.gym_env;
  if (turns.scheduler.empty() && !turns.gym_env.empty()) turns.scheduler = "gym_scheduler";
  turns.gym_reward = args.use_gym_env.has_value() ? *args.use_gym_env : !turns.gym_env.empty();
  read_tools(args, turns);
  if (turns.scheduler.empty()) {
    if (turns.gym_reward)
      throw UserError(ExitCode::usage, fmt::format("{} without an environment", args.use_gym_env.flag()),
                      fmt::format("name it: {} NAME --external_plugins FILE", args.gym_env.flag()));
    return;
  }
  if (args.max_turns.has_value()) turns.max_turns = *args.max_turns;
  turns.limits_total = *args.completion_length_limit_scope == "total";
  train::rl::RewardConfig plugins;
  read_plugin_options(options, plugins);
  turns.plugins = plugins.plugins;
  if (turns.gym_reward && turns.plugins.files.empty() && turns.scheduler != "openenv_scheduler")
    throw UserError(ExitCode::usage, fmt::format("{} needs the environment", args.use_gym_env.flag()),
                    "name the file that registers it in envs with --external_plugins");
  config.turns = turns;
  make_scheduler(turns);  // validates names and URLs before loading a model
}

}  // namespace hone::cli
