// Where completions come from when they are not generated in the training processes.
#pragma once
#include <string>
#include <vector>

namespace hone::train::rl {

struct RolloutServerConfig {
  std::vector<std::string> addresses;  // http://host:port; several share the work
  double timeout = 240;                // seconds that a server which does not answer is waited for
  std::string api_key;
  bool sampling_only = false;  // any OpenAI-compatible server: its weights stay as they are, log-probabilities are the trainer's
};

}  // namespace hone::train::rl
