// MiniMax's formats: calls in XML tags (M2), whose values are nested elements in M3.
#include "hone/text/templates/python_json.h"
#include "hone/text/templates/series_format.h"

namespace hone::text {
namespace {

class MiniMax2 : public SeriesFormat {
 public:
  std::string render_tools(const std::vector<Json>& tools, const std::optional<std::string>& system,
                           std::string&) const override {
    return listed_tools(tools, system) +
           "When making tool calls, use XML format to invoke tools and pass parameters:\n\n<minimax:tool_call>\n"
           "<invoke name=\"tool-name-1\">\n<parameter name=\"param-key-1\">param-value-1</parameter>\n"
           "<parameter name=\"param-key-2\">param-value-2</parameter>\n...\n</invoke>\n</minimax:tool_call>";
  }
  std::string render_tool_calls(const std::vector<ToolCall>& calls) const override {
    const auto parameter = [](const auto& item) {
      return fmt::format("<parameter name=\"{}\">{}</parameter>", item.key(), text_or_json(item.value()));
    };
    const auto invocation = [&](const ToolCall& call) {
      return fmt::format("<invoke name=\"{}\">\n{}\n</invoke>", call.name, lines_of(call.arguments.items(), parameter));
    };
    return "<minimax:tool_call>\n" + lines_of(calls, invocation) + "\n</minimax:tool_call>";
  }
  std::string render_tool_results(const std::vector<std::string>& results) const override {
    return lines_of(results, [](const std::string& result) { return "<response>" + result + "</response>"; });
  }

 protected:
  static std::string listed_tools(const std::vector<Json>& tools, const std::optional<std::string>& system) {
    return system.value_or("") +
           "\n\n# Tools\nYou may call one or more tools to assist with the user query.\n"
           "Here are the tools available in JSONSchema format:\n\n<tools>\n" +
           lines_of(tools, [](const Json& tool) { return "<tool>" + function_line(tool) + "</tool>"; }) + "\n</tools>\n\n";
  }
  TemplateSlots results_between(const std::vector<std::string>& results, const SwiftTemplate& chat_template) const override {
    return results_turn(render_tool_results(results), chat_template, "tool");
  }
};

// Every tag has a namespace prefix, and values are nested elements.
class MiniMax3 final : public MiniMax2 {
 public:
  std::string render_tools(const std::vector<Json>& tools, const std::optional<std::string>& system,
                           std::string&) const override {
    const std::string begin = tag("tool_call"), end = tag("/tool_call");
    const auto example =
        fmt::format("\n\n{}\n{}{}value-1{}{}{}{}val-a{}{}val-b{}{}{}{}\n{}{}value-1{}{}\n{}", begin,
                    tag("invoke name=\"tool-name-1\""), tag("param-1"), tag("/param-1"), tag("param-2"), tag("item"),
                    tag("key-a"), tag("/key-a"), tag("key-b"), tag("/key-b"), tag("/item"), tag("/param-2"), tag("/invoke"),
                    tag("invoke name=\"tool-name-2\""), tag("param-1"), tag("/param-1"), tag("/invoke"), end);
    return listed_tools(tools, system) +
           fmt::format(
               "To call tools, wrap all invocations in a single {}{} block. Parameter values containing nested objects or "
               "arrays are recursively expanded into XML elements. Example:{}",
               begin, end, example);
  }
  std::string render_tool_calls(const std::vector<ToolCall>& calls) const override {
    const auto invocation = [](const ToolCall& call) {
      return tag(fmt::format("invoke name=\"{}\"", call.name)) + elements(call.arguments) + tag("/invoke");
    };
    return tag("tool_call") + "\n" + lines_of(calls, invocation) + "\n" + tag("/tool_call");
  }

 private:
  static std::string tag(const std::string& words) { return "]<]minimax[>[<" + words + ">"; }
  static std::string elements(const Json& value) {
    std::string text;
    if (value.is_object()) {
      for (const auto& [name, inner] : value.items())
        if (!inner.is_null()) text += tag(name) + elements(inner) + tag("/" + name);
    } else if (value.is_array()) {
      for (const auto& inner : value) text += tag("item") + elements(inner) + tag("/item");
    } else if (!value.is_null()) {
      text = value.is_boolean() ? value.dump() : python_str(value);
    }
    return text;
  }
};

}  // namespace

void add_minimax_formats(AgentTable& table) {
  table.emplace_back("minimax_m2", std::make_unique<MiniMax2>());
  table.emplace_back("minimax_m3", std::make_unique<MiniMax3>());
}

}  // namespace hone::text
