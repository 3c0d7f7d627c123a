// SwanLab as a tracker: its own program imports the run's TensorBoard files at the end, and notifications are sent.
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

// Runs `swanlab convert` on the folder of event files. Never fails the run: an error, or the command if the program is not
// installed, is logged.
void upload_to_swanlab(const SwanlabConfig& config, const std::filesystem::path& events);

// Sends the notification that `run` has ended, with `error` as the reason if it failed. Never fails the run.
void send_run_notification(const SwanlabConfig& config, const std::filesystem::path& run, const std::string& about,
                           const std::string& error);
// The meaning of an exit code without a message; empty for 0.
std::string describe_exit_code(int exit_code);

}  // namespace hone::train
