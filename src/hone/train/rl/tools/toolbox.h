// The tools of a run: which may be called, on which server, and their results. A failed call is a result, too.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hone/train/rl/tools/config.h"
#include "hone/train/rl/tools/tool_server.h"

namespace hone::train::rl {

struct ToolResult {
  std::string text;  // of a failure, "Error: " and the reason
  bool failed = false;
  std::vector<std::string> images = {};  // data: URIs; if there are any, each has a tag <image> in the text, which has no others
};

// The part of a tool's output that the model reads.
ToolResult read_output(ToolOutput output, const ToolConfig& config);

class Toolbox {
 public:
  // Throws UserError(usage) for invalid addresses, and for remote ones unless they are allowed.
  explicit Toolbox(const ToolConfig& config);

  // Connects to every server. Throws UserError(failure).
  void probe();
  // `listed`: the tools that a row offers to the model; empty: it lists none.
  struct Call {
    ToolRequest request;
    std::vector<std::string> listed;
    std::string malformed = {};  // why it is invalid: no server is called
  };
  // Concurrent calls, results in their order. Throws StopBetweenSteps if the run should stop meanwhile.
  std::vector<ToolResult> call_all(const std::vector<Call>& calls);

 private:
  ToolResult call(const Call& call);
  ToolServer* server_for(const Call& call, std::string& why) const;

  ToolConfig config_;
  std::vector<std::unique_ptr<ToolServer>> servers_;
  bool begun_ = false;
};

// Before a model is loaded: checks that the servers are reachable.
void probe_tools(const ToolConfig& config);

}  // namespace hone::train::rl
