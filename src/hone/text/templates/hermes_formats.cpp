// Formats that put JSON or XML calls between tags: Hermes (Qwen 2.5, Qwen 3), Qwen 3 coder, Hunyuan, MiniCPM 5, Llama 3 and 4,
// Mistral.
#include "hone/base/strings/trimmed.h"
#include "hone/text/templates/agent_format.h"
#include "hone/text/templates/python_json.h"

namespace hone::text {
namespace {

std::string joined(const std::vector<std::string>& parts, const char* separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string listed(const std::vector<Json>& tools, const char* separator = "\n") {
  std::vector<std::string> lines;
  for (const auto& tool : tools) lines.push_back(python_dumps(tool));
  return joined(lines, separator);
}

std::string call_object(const ToolCall& call, const char* arguments_key) {
  return python_dumps(Json{{"name", call.name}, {arguments_key, call.arguments}});
}

class Hermes : public AgentFormat {
 public:
  std::string render_tools(const std::vector<Json>& tools, const std::optional<std::string>& system,
                           std::string&) const override {
    return system.value_or("") +
           "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
           "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n" +
           listed(tools) +
           "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
           "<tool_call></tool_call> XML tags:\n"
           "<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>";
  }

  std::string render_tool_calls(const std::vector<ToolCall>& calls) const override {
    std::vector<std::string> texts;
    for (const auto& call : calls) texts.push_back("<tool_call>\n" + call_object(call, "arguments") + "\n</tool_call>");
    return joined(texts, "\n");
  }

  TemplateSlots results(const CallingResponse& response, const std::vector<std::string>& results,
                        const SwiftTemplate& chat_template) const override {
    if (written_as_action(response.editable)) return AgentFormat::results(response, results, chat_template);
    return results_turn(results_text(results), chat_template);
  }

  std::string standalone_results(const std::vector<std::string>& results, const SwiftTemplate& chat_template) const override {
    std::string text;
    auto append = [&](const TemplateSlot& piece) {
      if (piece.kind != TemplateSlot::Kind::text)
        throw FormatError("this template cannot hold a tool result that follows a user message");
      text += piece.text;
    };
    for (const auto& piece : chat_template.chat_sep.value_or(TemplateSlots{})) append(piece);
    for (const auto& piece : chat_template.prompt) {
      auto at = piece.text.find("{{QUERY}}");
      if (piece.kind == TemplateSlot::Kind::text && at != std::string::npos)
        return text + piece.text.substr(0, at) + results_text(results);
      append(piece);
    }
    return text;
  }
  std::string render_tool_results(const std::vector<std::string>& results) const override { return results_text(results); }

 protected:
  virtual std::string results_text(const std::vector<std::string>& results) const {
    std::vector<std::string> texts;
    for (const auto& result : results) texts.push_back("<tool_response>\n" + result + "\n</tool_response>");
    return joined(texts, "\n");
  }
};

class HunyuanHermes : public Hermes {
 public:
  std::string render_tools(const std::vector<Json>& tools, const std::optional<std::string>& system,
                           std::string&) const override {
    return (system.value_or("").empty() ? "" : *system + "\n\n") +
           "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
           "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n" +
           listed(tools) +
           "\n</tools>\n\nFor function call returns, you should first print <tool_calls>For each function call, you should "
           "return object like:\n"
           "<tool_call>function_name\n```json\nfunction_arguments_in_json_format\n```</tool_call>"
           "At the end of function call returns, you should print </tool_calls>";
  }
  std::string render_tool_calls(const std::vector<ToolCall>& calls) const override {
    return "<tool_calls>\n" + Hermes::render_tool_calls(calls) + "\n</tool_calls>";
  }

 protected:
  std::string results_text(const std::vector<std::string>& results) const override {
    std::vector<std::string> texts;
    for (const auto& result : results) texts.push_back("<tool_response>" + result + "</tool_response>");
    return "<tool_responses>" + joined(texts, "\n") + "</tool_responses>";
  }
};

const char* const kXmlCallRules =
    "</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n\n"
    "<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n"
    "<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple lines\n</parameter>\n"
    "</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n"
    "- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested within "
    "<tool_call></tool_call> XML tags\n- Required parameters MUST be specified\n"
    "- You may provide optional reasoning for your function call in natural language BEFORE the function call, but NOT after\n"
    "- If there is no function call available, answer the question like normal with your current knowledge and do not tell the "
    "user "
    "about function calls\n</IMPORTANT>";

// Every key not in `handled` as <key>json</key>.
std::string extra_keys(const Json& object, std::initializer_list<std::string_view> handled) {
  std::string text;
  if (!object.is_object()) return text;
  for (const auto& [key, value] : object.items())
    if (std::find(handled.begin(), handled.end(), key) == handled.end())
      text += fmt::format("\n<{0}>{1}</{0}>", key, python_dumps(value));
  return text;
}

class Qwen3Coder : public Hermes {
 public:
  std::string render_tools(const std::vector<Json>& tools, const std::optional<std::string>& system,
                           std::string&) const override {
    std::string text = system.value_or("You are Qwen, a helpful AI assistant that can interact with a computer to solve tasks.");
    text += "\n\n# Tools\n\nYou have access to the following functions:\n\n<tools>\n";
    for (const auto& tool : tools) text += description(tool.contains("function") ? tool["function"] : tool) + "\n";
    return text + kXmlCallRules;
  }

  std::string render_tool_calls(const std::vector<ToolCall>& calls) const override {
    std::vector<std::string> texts;
    for (const auto& call : calls) {
      auto text = "<tool_call>\n<function=" + call.name + ">\n";
      if (!call.arguments.is_object()) throw FormatError("arguments of a tool call are not an object: " + call.name);
      for (const auto& [name, value] : call.arguments.items())
        text += fmt::format("<parameter={}>\n{}\n</parameter>\n", name,
                            value.is_structured() ? python_dumps(value) : python_str(value));
      texts.push_back(text + "</function>\n</tool_call>");
    }
    return joined(texts, "\n");
  }

 protected:
  std::string results_text(const std::vector<std::string>& results) const override {
    std::string text;
    for (const auto& result : results) text += "<tool_response>\n" + result + "\n</tool_response>\n";
    return text;
  }

 private:
  static std::string description(const Json& function) {
    auto text = "<function>\n<name>" + python_str(function.at("name")) + "</name>";
    if (function.contains("description"))
      text += "\n<description>" + trimmed(python_str(function["description"])) + "</description>";
    text += "\n<parameters>";
    Json parameters = function.value("parameters", Json());
    if (parameters.is_object() && parameters.contains("properties") && parameters["properties"].is_object())
      for (const auto& [name, fields] : parameters["properties"].items()) {
        text += "\n<parameter>\n<name>" + name + "</name>";
        if (fields.contains("type")) text += "\n<type>" + python_str(fields["type"]) + "</type>";
        if (fields.contains("description"))
          text += "\n<description>" + trimmed(python_str(fields["description"])) + "</description>";
        text += extra_keys(fields, {"name", "type", "description"}) + "\n</parameter>";
      }
    text += extra_keys(parameters, {"type", "properties"}) + "\n</parameters>";
    return text + extra_keys(function, {"type", "name", "description", "parameters"}) + "\n</function>";
  }
};

class Qwen3_5 : public Qwen3Coder {
 public:
  std::string render_tools(const std::vector<Json>& tools, const std::optional<std::string>& system,
                           std::string&) const override {
    auto text = "# Tools\n\nYou have access to the following functions:\n\n<tools>\n" + listed(tools) + "\n" + kXmlCallRules;
    return system.value_or("").empty() ? text : text + "\n\n" + *system;
  }
  std::string call_separator(const std::string* before) const override {
    if (!before) return {};
    auto end = before->rfind("</think>");
    return trimmed(end == std::string::npos ? *before : before->substr(end + 8)).empty() ? "" : "\n\n";
  }

 protected:
  std::string results_text(const std::vector<std::string>& results) const override { return Hermes::results_text(results); }
};

class Llama : public AgentFormat {
 public:
  Llama(std::string open, std::string close, std::string end)
      : open_(std::move(open)), close_(std::move(close)), end_(std::move(end)) {}

  std::string render_tools(const std::vector<Json>& tools, const std::optional<std::string>& system,
                           std::string& first_user) const override {
    std::vector<std::string> lines;
    for (const auto& tool : tools) lines.push_back(python_dumps(tool, 4));
    first_user =
        "Given the following functions, please respond with a JSON for a function call with its proper arguments that best "
        "answers the "
        "given prompt.\n\nRespond in the format {\"name\": function name, \"parameters\": dictionary of argument name and its "
        "value}. "
        "Do not use variables.\n\n" +
        joined(lines, "\n\n") + "\n\n" + first_user;
    return system.value_or("");
  }
  std::string render_tool_calls(const std::vector<ToolCall>& calls) const override {
    std::vector<std::string> texts;
    for (const auto& call : calls) texts.push_back(call_object(call, "parameters"));
    return joined(texts, "\n");
  }
  TemplateSlots results(const CallingResponse& response, const std::vector<std::string>& results,
                        const SwiftTemplate& chat_template) const override {
    if (written_as_action(response.editable)) return AgentFormat::results(response, results, chat_template);
    TemplateSlots pieces = {end_};
    for (const auto& result : results) pieces.push_back(open_ + "tool" + close_ + "\n\n" + result + end_);
    pieces.push_back(open_ + "assistant" + close_ + "\n\n");
    return pieces;
  }

 private:
  std::string open_, close_, end_;
};

class MiniCpm5 : public Hermes {
 public:
  std::string render_tools(const std::vector<Json>& tools, const std::optional<std::string>& system,
                           std::string&) const override {
    const auto own = system.value_or("");
    return own + (own.empty() ? "" : "\n\n") +
           "# Tools\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>\n" + listed(tools) +
           "\n</tools>\n\nTool usage guidelines:\n- You may call zero or more functions. If no function calls are needed, just "
           "answer normally and do not include any "
           "<function ... </function>.\n- When calling a function, return an XML object within <function ... </function> using:\n"
           "<function name=\"function-name\"><param name=\"param-name\">param-value</param></function>\n- param-value may be "
           "multi-line. If it contains <, & or "
           "newline characters, wrap it in a CDATA block: <param name=\"param-name\"><![CDATA[...multi-line value...]]></param>";
  }
  std::string render_tool_calls(const std::vector<ToolCall>& calls) const override {
    std::vector<std::string> texts;
    for (const auto& call : calls) {
      std::string parameters;
      if (call.arguments.is_object())
        for (const auto& [name, value] : call.arguments.items())
          parameters += fmt::format("<param name=\"{}\">{}</param>", name, parameter(value));
      texts.push_back(fmt::format("<function name=\"{}\">{}</function>", call.name, parameters));
    }
    return joined(texts, "\n");
  }

 private:
  static std::string parameter(const Json& value) {
    if (!value.is_string()) return python_dumps(value);
    auto text = value.get<std::string>();
    return text.find_first_of("<&\n") == text.npos ? text : "<![CDATA[" + text + "]]>";
  }
};

class Mistral : public AgentFormat {
 public:
  std::string render_tools(const std::vector<Json>& tools, const std::optional<std::string>& system,
                           std::string&) const override {
    return system.value_or("") + "[AVAILABLE_TOOLS]" + listed(tools, " ") + "[/AVAILABLE_TOOLS]";
  }
  std::string render_tool_calls(const std::vector<ToolCall>& calls) const override {
    std::vector<std::string> texts;
    for (const auto& call : calls) texts.push_back(call_object(call, "arguments"));
    return "[TOOL_CALLS][\n" + joined(texts, "\n") + "\n]</s>";
  }
  TemplateSlots results(const CallingResponse&, const std::vector<std::string>& results,
                        const SwiftTemplate& chat_template) const override {
    return results_turn(render_tool_results(results), chat_template);
  }
  std::string render_tool_results(const std::vector<std::string>& results) const override {
    std::vector<std::string> texts;
    for (const auto& result : results)
      texts.push_back("[TOOL_RESULTS]" + python_dumps(Json{{"content", result}}) + "[/TOOL_RESULTS]");
    return joined(texts, "\n");
  }
};

}  // namespace

void add_hermes_formats(AgentTable& table) {
  table.emplace_back("hermes", std::make_unique<Hermes>());
  table.emplace_back("hunyuan_hermes", std::make_unique<HunyuanHermes>());
  table.emplace_back("minicpm5", std::make_unique<MiniCpm5>());
  table.emplace_back("qwen3_coder", std::make_unique<Qwen3Coder>());
  table.emplace_back("qwen3_5", std::make_unique<Qwen3_5>());
  table.emplace_back("llama3", std::make_unique<Llama>("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"));
  table.emplace_back("llama4", std::make_unique<Llama>("<|header_start|>", "<|header_end|>", "<|eot|>"));
  table.emplace_back("mistral", std::make_unique<Mistral>());
}

}  // namespace hone::text
