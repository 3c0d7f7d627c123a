// DeepSeek's formats: 3.1's special tokens, and the tags of 4 and 4.1.
#include "hone/base/strings/replace_all.h"
#include "hone/text/templates/python_json.h"
#include "hone/text/templates/series_format.h"

namespace hone::text {
namespace {

class DeepSeek31 final : public SeriesFormat {
 public:
  std::string render_tools(const std::vector<Json>& tools, const std::optional<std::string>& system,
                           std::string&) const override {
    const auto described = [](const Json& tool) {
      const auto function = function_of(tool);
      return fmt::format("### {}\nDescription: {}\n\nParameters: {}", string_member(function, "name"),
                         string_member(function, "description"), python_dumps(object_member(function, "parameters")));
    };
    return system.value_or("") + "\n\n## Tools\nYou have access to the following tools:\n\n" +
           lines_of(tools, described, "\n\n") +
           "\n\nIMPORTANT: ALWAYS adhere to this exact format for tool use:\n"
           "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>tool_call_name<｜tool▁sep｜>tool_call_arguments<｜tool▁call▁end｜>"
           "{additional_tool_calls}<｜tool▁calls▁end｜>\n\nWhere:\n"
           "- `tool_call_name` must be an exact match to one of the available tools\n"
           "- `tool_call_arguments` must be valid JSON that strictly follows the tool's Parameters Schema\n"
           "- For multiple tool calls, chain them directly without separators or spaces";
  }
  std::string render_tool_calls(const std::vector<ToolCall>& calls) const override {
    const auto written = [](const ToolCall& call) {
      return fmt::format("<｜tool▁call▁begin｜>{}<｜tool▁sep｜>{}<｜tool▁call▁end｜>", call.name, python_dumps(call.arguments));
    };
    return "<｜tool▁calls▁begin｜>" + lines_of(calls, written, "") + "<｜tool▁calls▁end｜>";
  }
  std::string render_tool_results(const std::vector<std::string>& results) const override {
    const auto wrapped = [](const std::string& result) { return "<｜tool▁output▁begin｜>" + result + "<｜tool▁output▁end｜>"; };
    return lines_of(results, wrapped, "");
  }

 protected:
  TemplateSlots results_between(const std::vector<std::string>& results, const SwiftTemplate&) const override {
    return {"<｜end▁of▁sentence｜>", render_tool_results(results)};
  }
};

// 4.1 has a space after its special token, and another word for calls.
class DeepSeek4 final : public SeriesFormat {
 public:
  explicit DeepSeek4(bool is_41) : is_41_(is_41) {}
  std::string render_tools(const std::vector<Json>& tools, const std::optional<std::string>& system,
                           std::string&) const override {
    const auto own = system.value_or("");
    return own + (own.empty() && !is_41_ ? "" : "\n\n") +
           tagged(
               "## Tools\n\nYou have access to a set of tools to help answer the user's question. You can invoke tools by "
               "writing a "
               "\"<｜DSML｜tool_calls>\" block like the following:\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke "
               "name=\"$TOOL_NAME\">\n"
               "<｜DSML｜parameter name=\"$PARAMETER_NAME\" string=\"true|false\">$PARAMETER_VALUE</｜DSML｜parameter>\n...\n"
               "</｜DSML｜invoke>\n<｜DSML｜invoke name=\"$TOOL_NAME2\">\n...\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>\n\n"
               "String parameters should be specified as is and set `string=\"true\"`. For all other types (numbers, booleans, "
               "arrays, "
               "objects), pass the value in JSON format and set `string=\"false\"`.\n\n"
               "If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning inside "
               "<think>...</think> "
               "BEFORE any tool calls or final response.\n\n"
               "Otherwise, output directly after </think> with tool calls or final response.\n\n### Available Tool Schemas\n\n") +
           lines_of(tools, function_line) +
           "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n";
  }
  std::string render_tool_calls(const std::vector<ToolCall>& calls) const override {
    const auto parameter = [&](const auto& item) {
      return fmt::format(fmt::runtime(tagged("<｜DSML｜parameter name=\"{}\" string=\"{}\">{}</｜DSML｜parameter>")), item.key(),
                         item.value().is_string(), text_or_json(item.value()));
    };
    const auto invocation = [&](const ToolCall& call) {
      return fmt::format(fmt::runtime(tagged("<｜DSML｜invoke name=\"{}\">\n{}\n</｜DSML｜invoke>")), call.name,
                         lines_of(call.arguments.items(), parameter));
    };
    return tagged("\n\n<｜DSML｜tool_calls>\n") + lines_of(calls, invocation) + tagged("\n</｜DSML｜tool_calls>");
  }
  std::string render_tool_results(const std::vector<std::string>& results) const override {
    return lines_of(
        results, [](const std::string& result) { return "<tool_result>" + result + "</tool_result>"; }, "\n\n");
  }

 protected:
  TemplateSlots results_between(const std::vector<std::string>& results, const SwiftTemplate&) const override {
    return {"<｜end▁of▁sentence｜><｜User｜>", render_tool_results(results), "<｜Assistant｜>"};
  }

 private:
  std::string tagged(std::string text) const {
    if (!is_41_) return text;
    text = replace_all(std::move(text), "｜DSML｜tool_calls", "｜DSML｜calls");
    return replace_all(std::move(text), "｜DSML｜", "｜DSML｜ ");
  }

  bool is_41_;
};

}  // namespace

void add_deepseek_formats(AgentTable& table) {
  table.emplace_back("deepseek_v3_1", std::make_unique<DeepSeek31>());
  table.emplace_back("deepseek_v4", std::make_unique<DeepSeek4>(false));
  table.emplace_back("deepseek_v41", std::make_unique<DeepSeek4>(true));
}

}  // namespace hone::text
