#include "hone/data/encode/render_tools.h"

#include <algorithm>

namespace hone::data {
namespace {

// Consecutive messages of one role from `at` on; `at` is moved after them.
std::vector<const Message*> run_of(const std::vector<Message>& messages, size_t& at) {
  std::vector<const Message*> run;
  for (const auto& role = messages[at].role; at < messages.size() && messages[at].role == role; ++at)
    run.push_back(&messages[at]);
  return run;
}

void append_calls(const std::vector<const Message*>& run, const text::AgentFormat& format, std::vector<Message>& out) {
  std::vector<text::ToolCall> calls;
  for (const auto* message : run) calls.push_back(text::parse_tool_call(message->content));
  if (out.empty() || out.back().role != "assistant") out.push_back({.role = "assistant"});
  auto& message = out.back();
  if (!message.content.empty() && !message.content.ends_with('\n')) message.content += '\n';
  message.content += format.render_tool_calls(calls);
  if (run.back()->loss) message.loss = run.back()->loss;
}

void append_results(const std::vector<const Message*>& run, const text::AgentFormat& format, std::vector<Message>& out) {
  std::vector<std::string> results;
  for (const auto* message : run) results.push_back(message->content);
  out.push_back({.role = "user", .content = format.render_tool_results(results)});
}

void append_tools(const std::vector<Json>& tools, const text::AgentFormat& format, bool takes_system,
                  std::vector<Message>& messages) {
  bool has_system = messages[0].role == "system";
  auto user = std::ranges::find(messages, "user", &Message::role);
  if (user == messages.end()) throw text::FormatError("there is no user message for the tools");
  std::optional<std::string> system;
  if (has_system) system = messages[0].content;
  auto text = format.render_tools(tools, system, user->content);
  if (!takes_system)
    user->content = text + "\n\n" + user->content;
  else if (has_system)
    messages[0].content = std::move(text);
  else if (!text.empty())
    messages.insert(messages.begin(), {.role = "system", .content = std::move(text)});
}

}  // namespace

const text::AgentFormat* agent_format_of(const EncodeConfig& config, const std::string& fallback) {
  if (config.tool_format.empty()) return text::find_agent_format(fallback);
  auto format = text::find_agent_format(config.tool_format);
  if (!format)
    throw UserError(ExitCode::usage, "agent_template \"" + config.tool_format + "\" is unknown",
                    fmt::format("known: {}", fmt::join(text::agent_format_names(), ", ")));
  return format;
}

std::vector<Json> parse_tools(const std::string& tools) {
  if (tools.empty()) return {};
  auto parsed = parse_json(tools);
  if (!parsed) throw text::FormatError("\"tools\" is not JSON: " + parsed.error());
  std::vector<Json> list;
  for (auto tool : parsed->is_array() ? *parsed : Json::array({*parsed})) {
    if (tool.is_string()) {
      auto inner = parse_json(tool.get_ref<const std::string&>());
      if (!inner) throw text::FormatError("a tool is not JSON: " + inner.error());
      tool = *inner;
    }
    if (!tool.is_object()) throw text::FormatError("a tool is not an object");
    if (!tool.contains("type") && !tool.contains("function")) tool = Json{{"type", "function"}, {"function", tool}};
    list.push_back(std::move(tool));
  }
  return list;
}

std::vector<Message> render_tools(const std::vector<Message>& messages, const std::vector<Json>& tools,
                                  const text::AgentFormat& format, bool takes_system) {
  std::vector<Message> out;
  for (size_t at = 0; at < messages.size();) {
    if (messages[at].role == "tool_call")
      append_calls(run_of(messages, at), format, out);
    else if (messages[at].role == "tool")
      append_results(run_of(messages, at), format, out);
    else
      out.push_back(messages[at++]);
  }
  if (!tools.empty()) append_tools(tools, format, takes_system, out);
  return out;
}

}  // namespace hone::data
