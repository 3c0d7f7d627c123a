#include "hone/train/reports/swanlab.h"

#include <fmt/ranges.h>
#include <sys/wait.h>

#include <vector>

#include "hone/base/child_process.h"
#include "hone/base/error.h"
#include "hone/base/log.h"

namespace hone::train {
namespace {

std::vector<std::string> convert_command(const SwanlabConfig& config, const std::filesystem::path& events) {
  std::vector<std::string> words{"swanlab", "convert", "-t", "tensorboard", "--tb-logdir", events.string()};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("-p", config.project);
  add("-w", config.workspace);
  add("-l", config.folder.string());
  return words;
}

// The key is not passed on the command line, which others can list.
std::vector<std::string> variables_of(const SwanlabConfig& config) {
  std::vector<std::string> variables;
  if (!config.token.empty()) variables.push_back("SWANLAB_API_KEY=" + config.token);
  if (!config.mode.empty()) variables.push_back("SWANLAB_MODE=" + config.mode);
  return variables;
}

}  // namespace

void upload_to_swanlab(const SwanlabConfig& config, const std::filesystem::path& events) {
  const auto words = convert_command(config, events);
  const auto command = fmt::format("{}", fmt::join(words, " "));
  const auto process = start_program({.words = words, .variables = variables_of(config)});
  if (!process) {
    log::warning("swanlab is not installed here; where it is, `{}` imports the run", command);
    return;
  }
  const int status = wait_for_program(*process);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    log::info("swanlab imported the run from {}", events.string());
  else
    log::warning("`{}` failed; the event files are complete, so it can be run again", command);
}

void send_run_notification(const SwanlabConfig& config, const std::filesystem::path& run, const std::string& about,
                           const std::string& error) {
  if (!config.enabled || config.notification.channel == notify::NotificationChannel::none) return;
  try {
    notify::send_notification(config.notification, {.error = error,
                                                    .project = config.project,
                                                    .workspace = config.workspace,
                                                    .name = config.name.empty() ? run.string() : config.name,
                                                    .description = about,
                                                    .place = std::filesystem::absolute(run).string()});
    log::info("the message that the run has ended is sent");
  } catch (const std::exception& problem) {
    log::warning("the message that the run has ended could not be sent: {}", problem.what());
  }
}

std::string describe_exit_code(int exit_code) {
  switch (static_cast<ExitCode>(exit_code)) {
    case ExitCode::ok:
      return "";
    case ExitCode::interrupted:
      return "interrupted by Ctrl-C; it can be resumed from its last checkpoint";
    case ExitCode::preempted:
      return "ended by a signal; it saved first and can be resumed";
    case ExitCode::out_of_space:
      return "the disk is full: the last checkpoint could not be written";
    default:
      return fmt::format("exit code {}", exit_code);
  }
}

}  // namespace hone::train
