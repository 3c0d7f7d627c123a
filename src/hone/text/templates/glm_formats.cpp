// GLM's formats: a name and JSON on the next line (GLM-4), or arg_key / arg_value tags (GLM-4.5 and later).
#include "hone/text/templates/agent_format.h"
#include "hone/text/templates/python_json.h"

namespace hone::text {
namespace {

class Glm4 : public AgentFormat {
 public:
  explicit Glm4(std::string introduction) : introduction_(std::move(introduction)) {}

  std::string render_tools(const std::vector<Json>& tools, const std::optional<std::string>&, std::string&) const override {
    std::vector<std::string> lines;
    for (const auto& tool : tools) {
      Json function = function_of(tool);
      auto name = function.value("name_for_model", function.value("name", std::string()));
      lines.push_back(
          fmt::format("## {}\n\n{}\n在调用上述函数时，请使用 Json 格式表示调用的参数。", name, python_dumps(function, 4)));
    }
    return introduction_ + "# 可用工具\n\n" + fmt::format("{}", fmt::join(lines, "\n"));
  }
  std::string render_tool_calls(const std::vector<ToolCall>& calls) const override {
    std::string text;
    for (const auto& call : calls) text += (text.empty() ? "" : "<|assistant|>") + call.name + "\n" + python_str(call.arguments);
    return text + "<|observation|>";
  }
  TemplateSlots results(const CallingResponse& response, const std::vector<std::string>& results,
                        const SwiftTemplate& chat_template) const override {
    if (written_as_action(response.editable)) return AgentFormat::results(response, results, chat_template);
    TemplateSlots pieces = {"\n"};
    for (size_t i = 0; i < results.size(); ++i) {
      if (i > 0) pieces.push_back("<|observation|>\n");
      pieces.push_back(results[i]);
    }
    pieces.push_back("<|assistant|>\n");
    return pieces;
  }
  std::string standalone_results(const std::vector<std::string>& results, const SwiftTemplate&) const override {
    std::string text;
    for (const auto& result : results) text += "<|observation|>\n" + result;
    return text;
  }

 private:
  std::string introduction_;
};

class Glm4_5 : public AgentFormat {
 public:
  // GLM-4.5 puts every tag on its own line, later versions none; GLM-5.1 lists functions without a wrapper.
  Glm4_5(bool lines, bool bare_functions) : lines_(lines), bare_functions_(bare_functions) {}

  std::string render_tools(const std::vector<Json>& tools, const std::optional<std::string>& system,
                           std::string&) const override {
    std::string text =
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
        "You are provided with function signatures within <tools></tools> XML tags:\n<tools>";
    for (const auto& tool : tools) text += "\n" + python_dumps(bare_functions_ ? function_of(tool) : tool);
    const char* gap = lines_ ? "\n" : "";
    text += fmt::format(
        "\n</tools>\n\nFor each function call, output the function name and arguments within the following XML format:\n"
        "<tool_call>{{function-name}}{0}<arg_key>{{arg-key-1}}</arg_key>{0}<arg_value>{{arg-value-1}}</arg_value>{0}"
        "<arg_key>{{arg-key-2}}</arg_key>{0}<arg_value>{{arg-value-2}}</arg_value>{0}...{0}</tool_call>",
        gap);
    auto stripped = system.value_or("");
    stripped.erase(0, stripped.find_first_not_of(" \t\n\r"));
    stripped.erase(stripped.find_last_not_of(" \t\n\r") + 1);
    if (!stripped.empty()) return text + "<|system|>\n" + stripped;
    return lines_ ? text : "\n" + text;
  }
  std::string render_tool_calls(const std::vector<ToolCall>& calls) const override {
    std::vector<std::string> parts;
    for (const auto& call : calls) {
      if (!call.arguments.is_object()) throw FormatError("arguments of a tool call are not an object: " + call.name);
      parts.push_back("<tool_call>" + call.name);
      for (const auto& [key, value] : call.arguments.items()) {
        parts.push_back("<arg_key>" + key + "</arg_key>");
        parts.push_back("<arg_value>" + python_str(value) + "</arg_value>");
      }
      parts.push_back("</tool_call>");
    }
    return fmt::format("{}", fmt::join(parts, lines_ ? "\n" : "")) + "<|observation|>";
  }
  TemplateSlots results(const CallingResponse& response, const std::vector<std::string>& results,
                        const SwiftTemplate& chat_template) const override {
    if (written_as_action(response.editable)) return AgentFormat::results(response, results, chat_template);
    TemplateSlots pieces;
    for (const auto& result : results) pieces.push_back(result_text(result));
    pieces.push_back(lines_ ? "<|assistant|>\n" : "<|assistant|>");
    return pieces;
  }
  std::string standalone_results(const std::vector<std::string>& results, const SwiftTemplate&) const override {
    return "<|observation|>" + render_tool_results(results);
  }
  std::string render_tool_results(const std::vector<std::string>& results) const override {
    std::string text;
    for (const auto& result : results) text += result_text(result);
    return text;
  }

 private:
  std::string result_text(const std::string& result) const {
    return lines_ ? "\n<tool_response>\n" + result + "\n</tool_response>" : "<tool_response>" + result + "</tool_response>";
  }
  bool lines_, bare_functions_;
};

}  // namespace

void add_glm_formats(AgentTable& table) {
  table.emplace_back("chatglm4",
                     std::make_unique<Glm4>("你是一个名为 GLM-4 的人工智能助手。你是基于智谱AI训练的语言模型 GLM-4 模型开发的，"
                                            "你的任务是针对用户的问题和要求提供适当的答复和支持。\n\n"));
  table.emplace_back("glm4", std::make_unique<Glm4>(""));
  table.emplace_back("glm4_5", std::make_unique<Glm4_5>(true, false));
  table.emplace_back("glm4_7", std::make_unique<Glm4_5>(false, false));
  table.emplace_back("glm5_1", std::make_unique<Glm4_5>(false, true));
}

}  // namespace hone::text
