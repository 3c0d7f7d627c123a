// A server that executes tool calls.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hone/base/json.h"
#include "hone/hub/http_call.h"

namespace hone::train::rl {

struct ToolRequest {
  std::string name;
  Json arguments;  // an object
};

struct ToolOutput {
  std::string text;
  std::vector<std::string> images = {};  // data: URIs, of the first tags <image> of the text; those without a tag come before it
};

// Thread-safe.
class ToolServer {
 public:
  struct Limits {
    double timeout = 30;                                     // seconds for one call
    size_t longest = size_t{16} << 20;                       // bytes of a response
    std::function<bool()> is_cancelled = {};                 // polled during a call
    std::function<bool(std::string_view)> is_complete = {};  // of a response that its server does not end
  };
  virtual ~ToolServer() = default;
  virtual bool serves(const std::string& name) const = 0;
  // The result, or an error.
  virtual Result<ToolOutput> call(const ToolRequest& request) = 0;
  // Checks that it is reachable. Throws UserError(failure).
  virtual void probe() = 0;
};

// POST {"name", "arguments"}, the response a text, {"result": …, "images": […]} or {"error": text}. `only` is the one tool it
// serves; "": any.
std::unique_ptr<ToolServer> make_http_tools(const std::string& address, const std::string& only, ToolServer::Limits limits);
// The Model Context Protocol over streamable HTTP. Asks for the server's tools when it is first needed.
std::unique_ptr<ToolServer> make_mcp_client(const std::string& address, ToolServer::Limits limits);

// One POST of JSON within the limits; `address` as it may be shown.
hub::HttpResponse post_to_tool(const std::string& address, const Json& body, const ToolServer::Limits& limits,
                               std::vector<std::string> headers = {});

}  // namespace hone::train::rl
