// Which tools a model may call while it generates.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace hone::train::rl {

struct ToolConfig {
  std::vector<std::string> servers;      // http://host:port/path for any tool, name=http://… for one
  std::vector<std::string> mcp_servers;  // http://host:port/mcp: they list their tools
  std::vector<std::string> allowed;      // names that may be called; empty: those that a row lists, or all if it lists none
  double timeout = 30;                   // seconds for one call
  int64_t response_limit = 8192;         // bytes of a result that the model sees
  bool allow_remote = false;             // servers may be on other machines
  bool shows_images = false;             // otherwise those of results are "[image]"
};

}  // namespace hone::train::rl
