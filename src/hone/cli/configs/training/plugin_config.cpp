#include "hone/cli/configs/training/plugin_config.h"

#include <filesystem>

namespace hone::cli {

void read_plugin_options(const Options& options, train::rl::RewardConfig& rewards) {
  rewards.http_timeout = options.real("reward_timeout");
  rewards.allow_remote_rewards = options.flag("remote_rewards");
  auto& plugins = rewards.plugins;
  plugins.files = options.list("external_plugins");
  plugins.python = options.text("plugin_python");
  plugins.timeout = rewards.http_timeout;
  if (options.has("plugin_memory_limit")) plugins.memory_limit = options.integer("plugin_memory_limit");
  if (plugins.files.empty()) return;
  for (const auto& file : plugins.files)
    if (!std::filesystem::is_regular_file(file))
      throw UserError(ExitCode::usage,
                      fmt::format("{} {}: there is no such file", options.display_name("external_plugins"), file));
  plugins.arguments = options.to_json();
}

}  // namespace hone::cli
