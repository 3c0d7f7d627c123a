// Formats of single models: Hunyuan 3, Kimi 2.5 and K3, Youtu; and ToolBench's.
#include <map>

#include "hone/base/strings/replace_all.h"
#include "hone/text/templates/python_json.h"
#include "hone/text/templates/series_format.h"

namespace hone::text {
namespace {

class Hunyuan3 final : public SeriesFormat {
 public:
  explicit Hunyuan3(std::string suffix) : suffix_(std::move(suffix)) {}

  std::string render_tools(const std::vector<Json>& tools, const std::optional<std::string>& system,
                           std::string&) const override {
    const auto own = system.value_or("");
    const auto argument = [&](const char* number) {
      return fmt::format("{}{{arg-key-{}}}{}\n{}{{arg-value-{}}}{}\n", tag("arg_key"), number, tag("/arg_key"), tag("arg_value"),
                         number, tag("/arg_value"));
    };
    return own + (own.empty() ? "" : "\n\n") +
           "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
           "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n" +
           lines_of(tools, [](const Json& tool) { return python_dumps(tool); }) +
           "\n</tools>\n\nFor function call returns, you should first print " + tag("tool_calls") +
           "\nFor each function call, you should return object like:\n" + tag("tool_call") + "{function-name}" + tag("tool_sep") +
           "\n" + argument("1") + argument("2") + "...\n" + tag("/tool_call") +
           "\nAt the end of function call returns, you should print " + tag("/tool_calls");
  }
  std::string render_tool_calls(const std::vector<ToolCall>& calls) const override {
    const auto argument = [this](const auto& item) {
      return tag("arg_key") + item.key() + tag("/arg_key") + "\n" + tag("arg_value") + text_or_json(item.value()) +
             tag("/arg_value");
    };
    const auto written = [&](const ToolCall& call) {
      const auto arguments = call.arguments.is_object() ? lines_of(call.arguments.items(), argument) : "";
      return tag("tool_call") + call.name + tag("tool_sep") + "\n" + arguments + "\n" + tag("/tool_call");
    };
    return tag("tool_calls") + "\n" + lines_of(calls, written) + "\n" + tag("/tool_calls");
  }
  std::string render_tool_results(const std::vector<std::string>& results) const override {
    const auto wrapped = [this](const std::string& result) {
      return tag("tool_response") + "\n" + result + "\n" + tag("/tool_response");
    };
    return tag("tool_responses") + "\n" + lines_of(results, wrapped) + "\n" + tag("/tool_responses");
  }

 protected:
  TemplateSlots results_between(const std::vector<std::string>& results, const SwiftTemplate&) const override {
    return {"<｜hy_eos" + suffix_ + "｜>", render_tool_results(results), "<｜hy_Assistant" + suffix_ + "｜>"};
  }

 private:
  std::string tag(const std::string& name) const { return "<" + name + suffix_ + ">"; }
  std::string suffix_;
};

// Tools are declared as TypeScript types. Results have no id, since rows contain none.
class Kimi25 final : public SeriesFormat {
 public:
  std::string render_tools(const std::vector<Json>& tools, const std::optional<std::string>& system,
                           std::string&) const override {
    auto text = "tool_declare<|im_middle|># Tools\n\n## functions\nnamespace functions {\n" + lines_of(tools, declared) + "\n}\n";
    if (!system.value_or("").empty()) text += "<|im_end|><|im_system|>system<|im_middle|>" + *system;
    return text;
  }
  std::string render_tool_calls(const std::vector<ToolCall>& calls) const override {
    const auto written = [](const ToolCall& call) {
      return fmt::format("<|tool_call_begin|>{}<|tool_call_argument_begin|>{}<|tool_call_end|>", call.name,
                         python_dumps(call.arguments));
    };
    return "<|tool_calls_section_begin|>" + lines_of(calls, written, "") + "<|tool_calls_section_end|>";
  }

 protected:
  TemplateSlots results_between(const std::vector<std::string>& results, const SwiftTemplate&) const override {
    TemplateSlots pieces = {"<|im_end|>"};
    for (const auto& result : results) pieces.push_back("<|im_system|>tool<|im_middle|>## Return of \n" + result + "<|im_end|>");
    pieces.push_back("<|im_assistant|>assistant<|im_middle|>");
    return pieces;
  }

 private:
  static std::string type_of(const Json& schema) {
    static const std::map<std::string, std::string> kTypes = {{"string", "string"},   {"number", "number"}, {"integer", "number"},
                                                              {"boolean", "boolean"}, {"array", "any[]"},   {"object", "object"},
                                                              {"null", "null"}};
    const auto known = kTypes.find(string_member(schema, "type"));
    return known == kTypes.end() ? "any" : known->second;
  }
  static std::string declared(const Json& tool) {
    const auto function = function_of(tool);
    const auto name = string_member(function, "name"), description = string_member(function, "description");
    const auto properties = object_member(object_member(function, "parameters"), "properties");
    auto text = description.empty() ? "" : "// " + description + "\n";
    if (properties.empty()) return text + fmt::format("type {} = (_: {{}}) => any;", name);
    text += fmt::format("type {} = (_: {{\n", name);
    size_t index = 0;
    for (const auto& [key, schema] : properties.items()) {
      const auto about = string_member(schema, "description");
      if (!about.empty()) text += "  // " + about + "\n";
      text += fmt::format("  {}: {}{}\n", key, type_of(schema), ++index < properties.size() ? "," : "");
    }
    return text + "}) => any;";
  }
};

// Messages, calls and arguments in XML-like tags with attributes (XTML). Results refer to their calls by order.
class KimiK3 final : public AgentFormat {
 public:
  std::string render_tools(const std::vector<Json>& tools, const std::optional<std::string>& system,
                           std::string&) const override {
    auto text =
        "role=\"system\" type=\"tool-declare\"<|sep|># Tools\nHere are the available tools, described in "
        "JSONSchema.\n\n```json\n" +
        sorted_by_key(tools).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n```";
    if (!system.value_or("").empty()) text += kCloseMessage + std::string("<|open|>message role=\"system\"<|sep|>") + *system;
    return text;
  }
  std::string render_tool_calls(const std::vector<ToolCall>& calls) const override {
    std::string text = "<|open|>tools<|sep|>";
    for (size_t i = 0; i < calls.size(); ++i)
      text += fmt::format("{}{}\" index=\"{}\"<|sep|>{}<|close|>call<|sep|>", kOpenCall, escaped(calls[i].name), i + 1,
                          arguments_of(calls[i].arguments));
    return text + "<|close|>tools<|sep|>";
  }
  // A text response closes its channel itself.
  std::string call_separator(const std::string* before) const override { return before ? "" : "<|close|>response<|sep|>"; }
  TemplateSlots results(const CallingResponse& response, const std::vector<std::string>& results,
                        const SwiftTemplate& chat_template) const override {
    if (written_as_action(&response.text)) return AgentFormat::results(response, results, chat_template);
    TemplateSlots pieces = {kCloseMessage};
    size_t at = 0;
    for (size_t i = 0; i < results.size(); ++i)
      pieces.push_back(fmt::format("<|open|>message role=\"tool\" tool=\"{}\" index=\"{}\"<|sep|>{}{}",
                                   next_name(response.text, at), i + 1, results[i], kCloseMessage));
    pieces.push_back("<|open|>message role=\"assistant\"<|sep|>");
    return pieces;
  }

 private:
  static constexpr const char* kCloseMessage = "<|close|>message<|sep|><|end_of_msg|>";
  static constexpr std::string_view kOpenCall = "<|open|>call tool=\"";

  static std::string escaped(std::string text) { return replace_all(replace_all(std::move(text), "&", "&amp;"), "\"", "&quot;"); }
  static const char* type_of(const Json& value) {
    if (value.is_boolean()) return "boolean";
    if (value.is_null()) return "null";
    if (value.is_number()) return "number";
    if (value.is_string()) return "string";
    return value.is_object() ? "object" : "array";
  }
  static std::string arguments_of(const Json& arguments) {
    if (!arguments.is_object()) return "<|open|>json type=\"object\"<|sep|>" + text_or_json(arguments) + "<|close|>json<|sep|>";
    std::string text;
    for (const auto& [key, value] : arguments.items())
      text += fmt::format("<|open|>argument key=\"{}\" type=\"{}\"<|sep|>{}<|close|>argument<|sep|>", escaped(key),
                          type_of(value), text_or_json(value));
    return text;
  }
  // The name of the next call from `at` on, as written; empty if none.
  static std::string next_name(const std::string& text, size_t& at) {
    const size_t open = text.find(kOpenCall, at), begin = open + kOpenCall.size();
    const size_t end = open == text.npos ? text.npos : text.find('"', begin);
    at = end == text.npos ? text.size() : end;
    return end == text.npos ? "" : text.substr(begin, end - begin);
  }
};

class Youtu final : public SeriesFormat {
 public:
  std::string render_tools(const std::vector<Json>& tools, const std::optional<std::string>& system,
                           std::string&) const override {
    const auto own = system.value_or("");
    return own + (own.empty() ? "" : "\n\n") +
           "<|begin_of_tool_description|>Tool calling capabilities.\nYou may call one or more functions to assist with the user "
           "query. You have the following functions available:\n" +
           lines_of(tools, [](const Json& tool) { return "```json\n" + python_dumps(tool) + "\n```"; }) +
           "\nFor tool call returns, you MUST use the following format:\n<tool_call>{\"name\": \"function-name\", \"arguments\": "
           "{\"param1\": \"value1\", \"param2\": \"value2\"}}</tool_call>\n<|end_of_tool_description|>";
  }
  std::string render_tool_calls(const std::vector<ToolCall>& calls) const override {
    const auto written = [](const ToolCall& call) {
      return "<tool_call>" + python_dumps(Json{{"name", call.name}, {"arguments", call.arguments}}) + "</tool_call>";
    };
    return lines_of(calls, written, "");
  }
  std::string render_tool_results(const std::vector<std::string>& results) const override {
    return lines_of(results, [](const std::string& result) { return "<tool_response>" + result + "</tool_response>"; });
  }

 protected:
  TemplateSlots results_between(const std::vector<std::string>& results, const SwiftTemplate& chat_template) const override {
    return results_turn(render_tool_results(results), chat_template);
  }
};

class ToolBench final : public AgentFormat {
 public:
  std::string render_tools(const std::vector<Json>& tools, const std::optional<std::string>&, std::string&) const override {
    Json functions = Json::array();
    for (const auto& tool : tools) functions.push_back(function_of(tool));
    return "You can use many tools(functions) to do the following task.\nFirst I will give you the task description, and your "
           "task "
           "start.\nAt each step, you need to give your thought to analyze the status now and what to do next, with a function "
           "call "
           "to actually execute your step. Your output should follow this format:\nThought:\nAction:\nAction Input:\n\n"
           "After the call, you will get the call result, and you are now in a new state.\nThen you will analyze your status "
           "now, "
           "then decide what to do next...\nAfter many (Thought-call) pairs, you finally perform the task, then you can give "
           "your "
           "final answer.\nRemember:\n1.the state change is irreversible, you can't go back to one of the former state, if you "
           "want "
           "to restart the task, say \"I give up and restart\".\n2.All the thought is short, at most in 5 sentence.\n3.You can "
           "do "
           "more then one try, so if your plan is to continuously try some conditions, you can do one of the conditions per "
           "try.\n"
           "Let's Begin!\nTask description: You should use functions to help handle the real time user queries. Remember:\n"
           "1.ALWAYS call \"Finish\" function at the end of the task. And the final answer should contain enough information to "
           "show "
           "to the user,If you can't handle the task, or you find that function calls always fail(the function is not valid "
           "now), "
           "use function Finish->give_up_and_restart.\n2.Do not use origin tool names, use only subfunctions' names.\n"
           "Specifically, you have access to the following APIs: " +
           python_dumps(functions);
  }
};

}  // namespace

void add_series_formats(AgentTable& table) {
  table.emplace_back("hy_v3_preview", std::make_unique<Hunyuan3>(""));
  table.emplace_back("hy_v3", std::make_unique<Hunyuan3>(":opensource"));
  table.emplace_back("kimi_k25", std::make_unique<Kimi25>());
  table.emplace_back("kimi_k3", std::make_unique<KimiK3>());
  table.emplace_back("youtu", std::make_unique<Youtu>());
  table.emplace_back("toolbench", std::make_unique<ToolBench>());
}

}  // namespace hone::text
