// SwanLab as a tracker: its own program takes in the run's TensorBoard files when the run has ended, and people get a message.
#pragma once
#include <filesystem>
#include <string>

#include "hone/notify/notification.h"

namespace hone::train {

struct SwanlabConfig {
  bool enabled = false;
  std::string project, workspace, mode, token;
  std::string name;              // of the run; empty: its folder
  std::filesystem::path folder;  // its own logs; empty: where it likes
  notify::NotificationConfig notification;
};

// Runs `swanlab convert` on the folder of event files. A run does not fail for it: what went wrong, or the command where the
// program is not installed, is a line in the log.
void upload_to_swanlab(const SwanlabConfig& config, const std::filesystem::path& events);

// Sends the message that `run` has ended, `error` saying what kept it from its end. A run does not fail for it either.
void send_run_notification(const SwanlabConfig& config, const std::filesystem::path& run, const std::string& about,
                           const std::string& error);
// What an exit code that no message explains means to them; empty for 0.
std::string describe_exit_code(int exit_code);

}  // namespace hone::train
