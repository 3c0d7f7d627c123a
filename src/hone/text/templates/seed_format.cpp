// Seed-OSS's format: tools as Python signatures with a docstring, calls in tags.
#include <algorithm>

#include "hone/base/strings/trimmed.h"
#include "hone/text/templates/agent_format.h"
#include "hone/text/templates/python_json.h"

namespace hone::text {
namespace {

constexpr std::string_view kNextSystem = "<seed:eos><seed:bos>system";
constexpr std::string_view kHowToCall =
    "工具调用请遵循如下格式:\n<seed:tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>value_1</"
    "parameter>\n"
    "<parameter=example_parameter_2>This is the value for the second parameter\nthat can span\nmultiple "
    "lines</parameter>\n</function>\n</seed:tool_call>";

std::string python_type(const Json& parameter) {
  constexpr std::pair<std::string_view, const char*> kTypes[] = {
      {"string", "str"}, {"number", "int"}, {"integer", "int"}, {"boolean", "bool"}, {"array", "list"}};
  const auto type = string_member(parameter, "type");
  for (const auto& [name, python] : kTypes)
    if (name == type) return python;
  return "Any";
}

std::string python_signature(const Json& function) {
  const auto parameters = object_member(function, "parameters"), properties = object_member(parameters, "properties");
  const auto required = parameters.value("required", Json::array());
  std::vector<std::string> names, lines{"    \"\"\"", "    " + trimmed(string_member(function, "description"))};
  if (!properties.empty()) lines.push_back("\n    Args:");
  for (const auto& [name, parameter] : properties.items()) {
    if (!parameter.is_object()) continue;
    const auto type = python_type(parameter);
    const bool must = required.is_array() && std::ranges::find(required, Json(name)) != required.end();
    names.push_back(name + ": " + type);
    lines.push_back(
        fmt::format("    - {} ({}) [{}]: {}", name, type, must ? "必填" : "选填", string_member(parameter, "description")));
  }
  const auto returned = object_member(object_member(function, "returns"), "properties");
  if (!returned.empty()) lines.push_back("\n    Returns:");
  for (const auto& [name, value] : returned.items())
    lines.push_back(fmt::format("    - {} ({}): {}", name, python_type(value), string_member(value, "description")));
  lines.push_back("\n    \"\"\"");
  return fmt::format("Function:\ndef {}({}):\n{}", string_member(function, "name"), fmt::join(names, ","),
                     fmt::join(lines, "\n"));
}

class Seed : public AgentFormat {
 public:
  std::string render_tools(const std::vector<Json>& tools, const std::optional<std::string>& system,
                           std::string&) const override {
    std::vector<std::string> signatures;
    for (const auto& tool : tools)
      if (auto function = function_of(tool); !string_member(function, "name").empty())
        signatures.push_back(python_signature(function));
    const auto listed = fmt::format("\n\n{}\n{}\n{}", fmt::join(signatures, "\n\n"), kHowToCall, kNextSystem);
    const auto own = system.value_or("");
    if (auto at = own.find(kNextSystem); at != own.npos) return own.substr(0, at) + listed + own.substr(at + kNextSystem.size());
    return "You are Doubao, a helpful AI assistant. You may call one or more functions to assist with the user query." + listed +
           "\n" + own;
  }
  std::string render_tool_calls(const std::vector<ToolCall>& calls) const override {
    std::vector<std::string> texts;
    for (const auto& call : calls) {
      if (!call.arguments.is_object()) throw FormatError("arguments of a tool call are not an object: " + call.name);
      std::string text = "<seed:tool_call>\n<function=" + call.name + ">\n";
      for (const auto& [name, value] : call.arguments.items())
        text += fmt::format("<parameter={}>{}</parameter>\n", name,
                            value.is_string() ? value.get<std::string>() : python_dumps(value));
      texts.push_back(text + "</function>\n</seed:tool_call>");
    }
    return fmt::format("{}", fmt::join(texts, "\n"));
  }
  TemplateSlots results(const CallingResponse& response, const std::vector<std::string>& results,
                        const SwiftTemplate& chat_template) const override {
    if (written_as_action(response.editable)) return AgentFormat::results(response, results, chat_template);
    return {"<seed:eos>", standalone_results(results, chat_template)};
  }
  std::string standalone_results(const std::vector<std::string>& results, const SwiftTemplate&) const override {
    return render_tool_results(results) + "<seed:bos>assistant\n";
  }
  std::string render_tool_results(const std::vector<std::string>& results) const override {
    std::string text;
    for (const auto& result : results) text += "<seed:bos>tool\n" + result + "<seed:eos>";
    return text;
  }
};

}  // namespace

void add_seed_format(AgentTable& table) { table.emplace_back("seed_oss", std::make_unique<Seed>()); }

}  // namespace hone::text
