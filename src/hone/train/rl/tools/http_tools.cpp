#include <algorithm>
#include <cmath>

#include "hone/hub/post_json.h"
#include "hone/train/rl/tools/tool_server.h"

namespace hone::train::rl {
namespace {

std::string result_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

class HttpTools final : public ToolServer {
 public:
  HttpTools(std::string address, std::string only, Limits limits)
      : address_(std::move(address)), only_(std::move(only)), limits_(std::move(limits)) {}

  bool serves(const std::string& name) const override { return only_.empty() || name == only_; }

  Result<ToolOutput> call(const ToolRequest& request) override {
    const auto response = post_to_tool(address_, {{"name", request.name}, {"arguments", request.arguments}}, limits_);
    if (!response.ok()) return Error{response.failure};
    const auto body = parse_json(response.body);
    if (!body) return ToolOutput{response.body};
    if (!body->is_object()) return ToolOutput{result_text(*body)};
    if (body->contains("error") && !(*body)["error"].is_null()) return Error{result_text((*body)["error"])};
    if (!body->contains("result")) return ToolOutput{result_text(*body)};
    ToolOutput output{result_text((*body)["result"])};
    const auto images = body->value("images", Json());
    if (images.is_null()) return output;
    const auto is_data = [](const Json& image) {  // a server must not name files of this machine
      return image.is_string() && image.get_ref<const std::string&>().starts_with("data:");
    };
    if (!images.is_array() || !std::ranges::all_of(images, is_data)) return error("\"images\" is not a list of data: URIs");
    output.images = images.get<std::vector<std::string>>();
    return output;
  }

  void probe() override {
    try {
      hub::require_listener(address_);
    } catch (const std::runtime_error& problem) {
      throw UserError(
          ExitCode::failure,
          fmt::format("the tool server at {} cannot be reached: {}", hub::read_address(address_)->shown, problem.what()),
          "start it first, or check the address (docs/agents.md)");
    }
  }

 private:
  std::string address_, only_;
  Limits limits_;
};

}  // namespace

hub::HttpResponse post_to_tool(const std::string& address, const Json& body, const ToolServer::Limits& limits,
                               std::vector<std::string> headers) {
  const auto seconds = std::chrono::seconds(std::max<int64_t>(1, static_cast<int64_t>(std::ceil(limits.timeout))));
  auto response = hub::http_call({.address = address,
                                  .method = "POST",
                                  .body = body.dump(-1, ' ', false, Json::error_handler_t::replace),
                                  .headers = std::move(headers),
                                  .timeout = seconds,
                                  .total_timeout = seconds,
                                  .longest = limits.longest,
                                  .is_cancelled = limits.is_cancelled,
                                  .is_complete = limits.is_complete});
  if (response.status == 0 && response.failure.empty()) response.failure = "no response";
  return response;
}

std::unique_ptr<ToolServer> make_http_tools(const std::string& address, const std::string& only, ToolServer::Limits limits) {
  return std::make_unique<HttpTools>(address, only, std::move(limits));
}

}  // namespace hone::train::rl
