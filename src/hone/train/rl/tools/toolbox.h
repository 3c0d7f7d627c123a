// The tools of a run: which of them may be called, by which server, and what comes back. A call that fails is a result, too.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hone/train/rl/tools/config.h"
#include "hone/train/rl/tools/tool_server.h"

namespace hone::train::rl {

struct ToolResult {
  std::string text;  // of a failure, "Error: " and why
  bool failed = false;
};

class Toolbox {
 public:
  // Throws UserError(usage) for what is no address, or one of another machine where that was not allowed.
  explicit Toolbox(const ToolConfig& config);

  // Connects to every server. Throws UserError(failure).
  void probe();
  // `listed`: the tools that a row offers to the model; empty: it lists none.
  struct Call {
    ToolRequest request;
    std::vector<std::string> listed;
    std::string malformed = {};  // why it is none: nobody is asked
  };
  // Several at a time, results in the order of calls. Throws StopBetweenSteps where somebody wants the run to stop meanwhile.
  std::vector<ToolResult> call_all(const std::vector<Call>& calls);

 private:
  ToolResult call(const Call& call);
  ToolServer* server_for(const Call& call, std::string& why) const;

  ToolConfig config_;
  std::vector<std::unique_ptr<ToolServer>> servers_;
  bool begun_ = false;
};

// Before a model is loaded: the servers are there.
void probe_tools(const ToolConfig& config);

}  // namespace hone::train::rl
