// SwanLab as a tracker: its own program takes in the run's TensorBoard files when the run has ended.
#pragma once
#include <filesystem>
#include <string>

namespace hone::train {

struct SwanlabConfig {
  bool on = false;
  std::string project, workspace, mode, token;
  std::filesystem::path folder;  // its own logs; empty: where it likes
};

// Runs `swanlab convert` on the folder of event files. A run does not fail for it: what went wrong, or the command where the program is
// not installed, is a line in the log.
void hand_to_swanlab(const SwanlabConfig& config, const std::filesystem::path& events);

}  // namespace hone::train
