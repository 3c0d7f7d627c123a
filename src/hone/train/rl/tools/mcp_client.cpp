// The Model Context Protocol, revision 2025-06-18, over streamable HTTP: JSON-RPC by POST, with a JSON response or an event
// stream that contains it.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include "hone/base/strings/lower_case.h"
#include "hone/base/strings/replace_all.h"
#include "hone/base/version.h"
#include "hone/data/conversation.h"
#include "hone/hub/post_json.h"
#include "hone/train/rl/tools/tool_server.h"

namespace hone::train::rl {
namespace {

constexpr const char* kProtocolVersion = "2025-06-18";
constexpr int kMostPages = 64;  // pages of a tool list

// The message with this id in an event stream: data lines of an event are joined, other fields are ignored.
std::optional<Json> message_in_events(std::string_view events, int64_t id) {
  std::string data;
  const auto found = [&]() -> std::optional<Json> {
    auto message = parse_json(std::exchange(data, ""));
    if (message && message->is_object() && message->value("id", Json()) == id && !message->contains("method"))
      return std::move(*message);
    return std::nullopt;
  };
  for (size_t at = 0; at < events.size();) {
    const auto end = std::min(events.find('\n', at), events.size());
    std::string_view line(events.data() + at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("data:")) {
      line.remove_prefix(line.starts_with("data: ") ? 6 : 5);
      data += (data.empty() ? "" : "\n") + std::string(line);
    } else if (line.empty() && !data.empty()) {
      if (auto message = found()) return message;
    }
  }
  return data.empty() ? std::nullopt : found();
}

// The image of a part of a result's content, as a data: URI.
std::optional<std::string> image_of(const Json& part) {
  if (!part.is_object() || part.value("type", Json()) != "image") return std::nullopt;
  const auto data = part.value("data", Json()), type = part.value("mimeType", Json());
  if (!data.is_string() || !type.is_string()) return std::nullopt;
  return fmt::format("data:{};base64,{}", type.get<std::string>(), data.get<std::string>());
}

// The text parts of a result's content, and its images; a failure has none. Next to images, a tag that a text spells is not one.
ToolOutput content_of(const Json& result, bool failed) {
  ToolOutput output;
  auto& text = output.text;
  const auto tag = data::MediaTags().image;
  const auto content = result.value("content", Json());
  const bool has_images =
      content.is_array() && std::ranges::any_of(content, [](const auto& part) { return image_of(part).has_value(); });
  if (content.is_array())
    for (const auto& part : content) {
      if (!part.is_object()) continue;
      if (!text.empty()) text += '\n';
      if (auto image = image_of(part)) {
        text += failed ? "[image]" : tag;
        if (!failed) output.images.push_back(std::move(*image));
        continue;
      }
      const auto words = part.value("text", Json());
      const auto shown =
          words.is_string() ? words.get<std::string>() : fmt::format("[{}]", part.value("type", Json("content")).dump());
      text += has_images ? replace_all(shown, tag, "[image]") : shown;
    }
  if (text.empty() && result.contains("structuredContent")) text = result["structuredContent"].dump();
  return output;
}

// 404 according to the protocol; servers of older SDKs return 400 and say so in words.
bool is_expired(const hub::HttpResponse& response) {
  if (response.status == 404) return true;
  return response.status == 400 && lower_case(response.body).find("session") != std::string::npos;
}

class McpClient final : public ToolServer {
 public:
  McpClient(std::string address, Limits limits) : address_(std::move(address)), limits_(std::move(limits)) {}

  bool serves(const std::string& name) const override {
    std::lock_guard lock(mutex_);
    return tools_.contains(name);
  }

  Result<ToolOutput> call(const ToolRequest& request) override {
    const Json parameters{{"name", request.name}, {"arguments", request.arguments}};
    const auto session = current();
    bool expired = false;
    auto result = ask("tools/call", parameters, session, expired);
    if (expired) {  // the server dropped the session: opens a new one, once
      if (auto renewed = renew(session); !renewed) return Error{renewed.error()};
      result = ask("tools/call", parameters, current(), expired);
    }
    if (!result) return Error{result.error()};
    const bool failed = result->value("isError", Json()) == true;
    auto output = content_of(*result, failed);
    if (failed) return Error{output.text.empty() ? "the tool failed" : output.text};
    return output;
  }

  void probe() override {
    auto begun = renew(current());
    if (!begun)
      throw UserError(ExitCode::failure,
                      fmt::format("the MCP server at {} cannot be used: {}", hub::read_address(address_)->shown, begun.error()),
                      "start it first, or check the address: it ends in /mcp as a rule (docs/agents.md)");
  }

 private:
  struct Session {
    std::string id, protocol;
    bool operator==(const Session&) const = default;
  };

  Session current() const {
    std::lock_guard lock(mutex_);
    return session_;
  }

  // Replaces a session that expired, unless another call has done so: concurrent calls share one.
  Result<bool> renew(const Session& expired) {
    std::lock_guard renewing(renewal_);
    return current() == expired ? begin() : true;
  }

  // Initializes a session and lists the server's tools. Calls use it only when both are done: a server may refuse them before.
  Result<bool> begin() {
    Session session;
    bool expired = false;
    auto greeted = ask("initialize",
                       {{"protocolVersion", kProtocolVersion},
                        {"capabilities", Json::object()},
                        {"clientInfo", {{"name", "hone"}, {"version", version()}}}},
                       session, expired, &session.id);
    if (!greeted) return Error{greeted.error()};
    const auto spoken = greeted->value("protocolVersion", Json());
    if (!spoken.is_string()) return Error{"it names no protocol version"};
    session.protocol = spoken.get<std::string>();
    post_to_tool(address_, {{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}}, limits_, headers_of(session));
    auto names = list_tools(session);
    if (!names) return Error{names.error()};
    std::lock_guard lock(mutex_);
    session_ = std::move(session), tools_ = std::move(*names);
    return true;
  }

  Result<std::set<std::string>> list_tools(const Session& session) {
    std::set<std::string> names;
    Json parameters = Json::object();
    for (int page = 0; page < kMostPages; ++page) {
      bool expired = false;
      auto listed = ask("tools/list", parameters, session, expired);
      if (!listed) return Error{listed.error()};
      const auto tools = listed->value("tools", Json());
      if (tools.is_array())
        for (const auto& tool : tools)
          if (const auto name = tool.is_object() ? tool.value("name", Json()) : Json(); name.is_string())
            names.insert(name.get<std::string>());
      const auto next = listed->value("nextCursor", Json());
      if (!next.is_string()) break;
      parameters["cursor"] = next;
    }
    if (names.empty()) return Error{"it has no tools"};
    return names;
  }

  static std::vector<std::string> headers_of(const Session& session) {
    std::vector<std::string> headers{"Accept: application/json, text/event-stream"};
    if (!session.id.empty()) headers.push_back("Mcp-Session-Id: " + session.id);
    if (!session.protocol.empty()) headers.push_back("MCP-Protocol-Version: " + session.protocol);
    return headers;
  }

  // The result of one request. `expired`: the server no longer knows the session. `opened`: gets the session that it opens.
  Result<Json> ask(const std::string& method, const Json& parameters, const Session& session, bool& expired,
                   std::string* opened = nullptr) {
    const auto id = next_id_++;
    auto limits = limits_;
    // A server need not close an event stream after its response.
    limits.is_complete = [id](std::string_view body) {
      return (body.ends_with("\n\n") || body.ends_with("\n\r\n")) && message_in_events(body, id);
    };
    const auto response = post_to_tool(address_, {{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", parameters}},
                                       limits, headers_of(session));
    expired = !session.id.empty() && is_expired(response);
    if (!response.ok()) return Error{response.failure};
    if (const auto found = response.headers.find("mcp-session-id"); opened && found != response.headers.end())
      *opened = found->second;
    const auto type = response.headers.contains("content-type") ? response.headers.at("content-type") : "";
    std::optional<Json> message;
    if (type.starts_with("text/event-stream")) {
      message = message_in_events(response.body, id);
    } else if (auto read = parse_json(response.body); read && read->is_object()) {
      message = std::move(*read);
    }
    if (!message) return error("it answered {} with no message of JSON-RPC", method);
    if (const auto problem = message->value("error", Json()); problem.is_object()) {
      const auto words = problem.value("message", Json());
      return Error{words.is_string() ? words.get<std::string>() : problem.dump()};
    }
    auto result = message->value("result", Json());
    if (!result.is_object()) return error("it answered {} with no result", method);
    return result;
  }

  std::string address_;
  Limits limits_;
  std::mutex renewal_;  // held while a session is opened
  mutable std::mutex mutex_;
  Session session_;
  std::set<std::string> tools_;
  std::atomic<int64_t> next_id_{1};
};

}  // namespace

std::unique_ptr<ToolServer> make_mcp_client(const std::string& address, ToolServer::Limits limits) {
  return std::make_unique<McpClient>(address, std::move(limits));
}

}  // namespace hone::train::rl
