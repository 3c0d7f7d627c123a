// Configuration of rollout servers.
#pragma once
#include <string>
#include <vector>

namespace hone::train::rl {

struct RolloutServerConfig {
  std::vector<std::string> addresses;  // http://host:port; requests are split across several
  double timeout = 240;                // seconds to wait for a server that does not respond
  std::string api_key;
  bool sampling_only = false;  // any OpenAI-compatible server: no weight updates, log-probabilities of the trainer
};

}  // namespace hone::train::rl
