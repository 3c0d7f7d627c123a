#include "hone/text/templates/agent_format.h"

#include "hone/base/strings/replace_all.h"
#include "hone/text/templates/python_json.h"

namespace hone::text {
namespace {

const AgentTable& table() {
  static const auto formats = [] {
    AgentTable formats;
    add_react_formats(formats);
    add_hermes_formats(formats);
    add_glm_formats(formats);
    add_seed_format(formats);
    add_deepseek_formats(formats);
    add_minimax_formats(formats);
    add_series_formats(formats);
    return formats;
  }();
  return formats;
}

Json parsed(const Json& value) {
  if (!value.is_string()) return value;
  auto inner = parse_json(value.get_ref<const std::string&>());
  return inner ? *inner : Json();
}

}  // namespace

ToolCall parse_tool_call(const std::string& json_text) {
  auto call = parse_json(json_text);
  if (!call || !call->is_object() || !call->contains("name") || !(*call)["name"].is_string())
    throw FormatError("a tool call is not an object with \"name\" and \"arguments\": " + json_text.substr(0, 80));
  Json arguments = parsed(call->value("arguments", Json()));
  if (arguments.is_null()) arguments = parsed(call->value("parameters", Json()));
  if (arguments.is_null()) throw FormatError("a tool call has no arguments: " + json_text.substr(0, 80));
  return {(*call)["name"].get<std::string>(), arguments};
}

Json function_of(const Json& tool) {
  if (!tool.is_object()) throw FormatError("a tool is not an object");
  return tool.contains("type") && tool.contains("function") ? tool["function"] : tool;
}

std::string string_member(const Json& object, const char* key) {
  auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

Json object_member(const Json& object, const char* key) {
  auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_object() ? *found : Json::object();
}

TemplateSlots results_turn(const std::string& results, const SwiftTemplate& chat_template, const std::string& role) {
  TemplateSlots pieces = chat_template.chat_sep.value_or(TemplateSlots{});
  for (auto piece : chat_template.prompt) {
    if (piece.kind == TemplateSlot::Kind::text)
      piece.text = replace_all(replace_all(piece.text, "user", role), "{{QUERY}}", results);
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

bool AgentFormat::written_as_action(const std::string* response) const {
  return response && response->find(keywords().action) != std::string::npos &&
         response->find(keywords().input) != std::string::npos;
}

std::string AgentFormat::render_tool_calls(const std::vector<ToolCall>& calls) const {
  std::string text;
  for (const auto& call : calls)
    text += fmt::format("{} {}\n{} {}\n", keywords().action, call.name, keywords().input, python_str(call.arguments));
  return text + keywords().observation;
}

TemplateSlots AgentFormat::results(const CallingResponse& response, const std::vector<std::string>& results,
                                   const SwiftTemplate&) const {
  TemplateSlots pieces;
  if (!written_as_action(response.editable)) {
    pieces.assign(results.begin(), results.end());
    return pieces;
  }
  if (auto& text = *response.editable; !text.ends_with(keywords().observation)) {
    if (!text.ends_with('\n')) text += '\n';
    text += keywords().observation;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (i > 0) pieces.push_back(keywords().observation);
    pieces.push_back(results[i]);
    if (!results[i].ends_with('\n')) pieces.push_back("\n");
  }
  return pieces;
}

std::string AgentFormat::standalone_results(const std::vector<std::string>&, const SwiftTemplate&) const {
  throw FormatError("this agent template has no form for a tool result that follows a user message");
}

std::string AgentFormat::render_tool_results(const std::vector<std::string>& results) const {
  return fmt::format("{}", fmt::join(results, "\n"));
}

const AgentFormat* find_agent_format(std::string_view name) {
  for (const auto& [known, format] : table())
    if (known == name) return format.get();
  return nullptr;
}

std::vector<std::string> agent_format_names() {
  std::vector<std::string> names;
  for (const auto& entry : table()) names.push_back(entry.first);
  return names;
}

}  // namespace hone::text
