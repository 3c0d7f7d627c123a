#include "hone/train/rl/tools/toolbox.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "hone/base/strings/replace_all.h"
#include "hone/base/strings/utf8.h"
#include "hone/base/thread_pool.h"
#include "hone/data/conversation.h"
#include "hone/data/placed_media.h"
#include "hone/hub/post_json.h"
#include "hone/train/loop/stop_signal.h"

namespace hone::train::rl {
namespace {

constexpr size_t kCallsAtOnce = 16, kMostImages = 8;    // of a result
constexpr size_t kLongestArguments = size_t{64} << 10;  // bytes

bool wants_to_leave() { return StopSignal::requested() != Stop::none; }

// "name=http://…" serves one tool.
std::pair<std::string, std::string> named_address(const std::string& word) {
  const auto equals = word.find('=');
  if (equals == word.npos || word.starts_with("http://") || word.starts_with("https://")) return {"", word};
  return {word.substr(0, equals), word.substr(equals + 1)};
}

void require_tool_address(const std::string& address, bool allow_remote) {
  std::optional<hub::PostAddress> read;
  try {
    read = hub::read_address(address);
  } catch (const std::runtime_error& problem) {
    throw UserError(ExitCode::usage, problem.what());
  }
  if (!read)
    throw UserError(ExitCode::usage, fmt::format("\"{}\" is not an address of a tool server", address),
                    "expected http://127.0.0.1:9000/call, name=http://127.0.0.1:9000/call or, of an MCP server, "
                    "http://127.0.0.1:9000/mcp");
  if (!read->this_machine && !allow_remote)
    throw UserError(
        ExitCode::usage,
        fmt::format("the tool server {} is on another machine; what the model writes would be sent there", read->shown),
        "to allow it, set `remote_tools` true");
}

// At most `limit` bytes, without splitting a character.
std::string shortened(std::string text, size_t limit) {
  if (text.size() <= limit) return text;
  text.resize(character_begin(text, limit));
  return text + " […]";
}

// The first `count` tags remain, and others are "[image]".
std::string with_image_tags(std::string text, size_t count) {
  const auto tag = data::MediaTags().image;
  size_t at = 0;
  for (size_t kept = 0; kept < count && (at = text.find(tag, at)) != text.npos; ++kept) at += tag.size();
  if (at == text.npos) return text;
  return text.substr(0, at) + replace_all(text.substr(at), tag, "[image]");
}

}  // namespace

// Without images, a tag that the text spells is text.
ToolResult read_output(ToolOutput output, const ToolConfig& config) {
  auto& [text, images] = output;
  const auto limit = static_cast<size_t>(config.response_limit), tags = data::count_image_tags(text);
  if (images.empty()) return {shortened(std::move(text), limit)};
  const auto untagged = images.size() - std::min(images.size(), tags);
  std::string missing;
  for (size_t i = 0; i < std::min(untagged, kMostImages); ++i) missing += data::MediaTags().image;
  images.resize(config.shows_images ? std::min(images.size(), kMostImages) : 0);
  text = shortened(with_image_tags(missing + text, images.size()), limit);
  images.resize(std::min(images.size(), data::count_image_tags(text)));
  return {std::move(text), false, std::move(images)};
}

Toolbox::Toolbox(const ToolConfig& config) : config_(config) {
  const ToolServer::Limits limits{.timeout = config.timeout, .is_cancelled = wants_to_leave};
  for (const auto& word : config.servers) {
    const auto [only, address] = named_address(word);
    require_tool_address(address, config.allow_remote);
    servers_.push_back(make_http_tools(address, only, limits));
  }
  for (const auto& address : config.mcp_servers) {
    require_tool_address(address, config.allow_remote);
    servers_.push_back(make_mcp_client(address, limits));
  }
}

void Toolbox::probe() {
  for (auto& server : servers_) server->probe();
  begun_ = true;
}

ToolServer* Toolbox::server_for(const Call& call, std::string& why) const {
  const auto& name = call.request.name;
  const auto holds = [&](const std::vector<std::string>& names) { return names.empty() || std::ranges::count(names, name) > 0; };
  why = fmt::format("there is no tool called {}", shortened(name, 64));
  if (!holds(config_.allowed) || !holds(call.listed)) return nullptr;
  const auto found = std::ranges::find_if(servers_, [&](const auto& server) { return server->serves(name); });
  return found == servers_.end() ? nullptr : found->get();
}

ToolResult Toolbox::call(const Call& call) {
  const auto limit = static_cast<size_t>(config_.response_limit);
  const auto failed = [&](const std::string& why) { return ToolResult{"Error: " + shortened(why, limit), true}; };
  if (!call.malformed.empty()) return failed(call.malformed);
  if (call.request.arguments.dump(-1, ' ', false, Json::error_handler_t::replace).size() > kLongestArguments)
    return failed("the arguments are too long");
  std::string why;
  auto* server = server_for(call, why);
  if (!server) return failed(why);
  auto result = server->call(call.request);
  if (!result) return failed(result.error());
  return read_output(std::move(*result), config_);
}

std::vector<ToolResult> Toolbox::call_all(const std::vector<Call>& calls) {
  if (!begun_) probe();
  std::vector<ToolResult> results;
  if (calls.empty()) return results;
  ThreadPool pool(std::min(calls.size(), kCallsAtOnce));
  std::vector<std::future<ToolResult>> pending;
  for (const auto& call : calls) pending.push_back(pool.submit([this, &call] { return this->call(call); }));
  for (auto& one : pending) one.wait();
  for (auto& one : pending) results.push_back(one.get());
  if (wants_to_leave()) throw StopBetweenSteps();
  return results;
}

void probe_tools(const ToolConfig& config) { Toolbox(config).probe(); }

}  // namespace hone::train::rl
