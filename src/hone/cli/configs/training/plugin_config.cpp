#include "hone/cli/configs/training/plugin_config.h"

#include <filesystem>

#include "hone/cli/arguments/preference.h"

namespace hone::cli {

void read_plugin_options(const Options& options, train::rl::RewardConfig& rewards) {
  const RewardArguments args(options);
  rewards.http_timeout = *args.reward_timeout;
  rewards.allow_remote_rewards = *args.remote_rewards;
  auto& plugins = rewards.plugins;
  plugins.files = *args.external_plugins;
  plugins.python = *args.plugin_python;
  plugins.timeout = rewards.http_timeout;
  if (args.plugin_memory_limit.has_value()) plugins.memory_limit = *args.plugin_memory_limit;
  if (plugins.files.empty()) return;
  for (const auto& file : plugins.files)
    if (!std::filesystem::is_regular_file(file))
      throw UserError(ExitCode::usage, fmt::format("{} {}: there is no such file", args.external_plugins.flag(), file));
  plugins.arguments = options.to_json();
}

}  // namespace hone::cli
