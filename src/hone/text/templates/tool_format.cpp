#include "hone/text/templates/tool_format.h"

#include <map>

#include "hone/text/templates/python_json.h"

namespace hone::text {
namespace {

bool is_wrapped(const Json& tool) { return tool.is_object() && tool.value("type", Json()) == "function"; }
Json wrapped(const Json& tool) { return is_wrapped(tool) ? tool : Json{{"type", "function"}, {"function", tool}}; }
Json bare(const Json& tool) { return is_wrapped(tool) && tool.contains("function") ? tool["function"] : tool; }

// One line per tool, each preceded by a newline.
std::string lines(const Json& tools, Json (*form)(const Json&)) {
  std::string text;
  for (const auto& tool : tools) text += "\n" + python_dumps(form(tool));
  return text;
}

const Json& object_arguments(const ToolCall& call) {
  if (!call.arguments.is_object()) throw FormatError("arguments of a tool call are not an object: " + call.name);
  return call.arguments;
}

std::string value_text(const Json& value) { return value.is_string() ? value.get<std::string>() : python_dumps(value); }

std::string default_describe(const Json& tools) {
  std::string text, names;
  for (const auto& tool : tools) {
    Json function = bare(tool);
    const Json& parameters = function.at("parameters");
    std::string arguments;
    for (const auto& [name, field] : parameters.at("properties").items()) {
      std::string required, choices, items;
      for (const auto& entry : parameters.value("required", Json::array()))
        if (entry == name) required = ", required";
      if (field.contains("enum") && !field["enum"].empty()) {
        for (const auto& choice : field["enum"]) choices += (choices.empty() ? "" : ", ") + value_text(choice);
        choices = ", should be one of [" + choices + "]";
      }
      if (field.contains("items") && !field["items"].empty())
        items = ", where each item should be " + python_str(field["items"].value("type", Json("")));
      arguments += fmt::format("  - {} ({}{}): {}{}{}\n", name, python_str(field.value("type", Json(""))), required,
                               python_str(field.value("description", Json(""))), choices, items);
    }
    auto name = function.at("name").get<std::string>();
    text += fmt::format("> Tool Name: {}\nTool Description: {}\nTool Args:\n{}\n", name,
                        python_str(function.value("description", Json(""))), arguments);
    names += (names.empty() ? "" : ", ") + name;
  }
  return "You have access to the following tools:\n" + text +
         "Use the following format if using a tool:\n```\nAction: tool name (one of [" + names +
         "])\nAction Input: the input to the tool, in a JSON format representing the kwargs "
         "(e.g. ```{\"input\": \"hello world\", \"num_beams\": 5}```)\n```\n";
}

std::string default_calls(const std::vector<ToolCall>& calls) {
  std::string text;
  for (const auto& call : calls)
    text += fmt::format("{}Action: {}\nAction Input: {}", text.empty() ? "" : "\n", call.name, python_dumps(call.arguments));
  return text;
}

std::string glm4_describe(const Json& tools) {
  std::string text =
      "你是一个名为 ChatGLM 的人工智能助手。你是基于智谱 AI 公司训练的语言模型 GLM-4 "
      "模型开发的，你的任务是针对用户的问题和要求提供适当的答复和支持。"
      "\n\n# 可用工具";
  for (const auto& tool : tools) {
    Json function = bare(tool);
    text += fmt::format("\n\n## {}\n\n{}\n在调用上述函数时，请使用 Json 格式表示调用的参数。",
                        function.at("name").get<std::string>(), python_dumps(function, 4));
  }
  return text;
}

std::string glm4_calls(const std::vector<ToolCall>& calls) {
  if (calls.size() > 1) throw FormatError("the glm4 tool format has no parallel calls");
  return calls[0].name + "\n" + python_dumps(calls[0].arguments);
}

std::string llama3_describe(const Json& tools) {
  auto text = "Cutting Knowledge Date: December 2023\nToday Date: " + today("%d %b %Y") +
              "\n\nYou have access to the following functions. To call a function, please respond with JSON for a function call. "
              "Respond in the format {\"name\": function name, \"parameters\": dictionary of argument name and its value}. "
              "Do not use variables.\n\n";
  for (const auto& tool : tools) text += python_dumps(wrapped(tool), 4) + "\n\n";
  return text;
}

std::string llama3_calls(const std::vector<ToolCall>& calls) {
  Json objects = Json::array();
  for (const auto& call : calls) objects.push_back({{"name", call.name}, {"parameters", call.arguments}});
  return python_dumps(objects.size() == 1 ? objects[0] : objects);
}

std::string mistral_describe(const Json& tools) {
  Json list = Json::array();
  for (const auto& tool : tools) list.push_back(wrapped(tool));
  return "[AVAILABLE_TOOLS] " + python_dumps(list) + "[/AVAILABLE_TOOLS]";
}

std::string mistral_calls(const std::vector<ToolCall>& calls) {
  Json objects = Json::array();
  for (const auto& call : calls) objects.push_back({{"name", call.name}, {"arguments", call.arguments}});
  return python_dumps(objects);
}

std::string call_lines(const std::vector<ToolCall>& calls, const char* open, const char* close) {
  std::string text;
  for (const auto& call : calls)
    text += (text.empty() ? "" : "\n") + (open + python_dumps(Json{{"name", call.name}, {"arguments", call.arguments}}) + close);
  return text;
}

const char* const kJsonCallRules =
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> "
    "XML tags:\n"
    "<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>";
const char* const kToolsHead =
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>";

std::string qwen_describe(const Json& tools) { return "\n\n" + std::string(kToolsHead) + lines(tools, wrapped) + kJsonCallRules; }
std::string qwen_calls(const std::vector<ToolCall>& calls) { return call_lines(calls, "<tool_call>\n", "\n</tool_call>"); }
std::string ling_describe(const Json& tools) {
  return kToolsHead + lines(tools, wrapped) + kJsonCallRules + "\ndetailed thinking off";
}

std::string qwen3_5_describe(const Json& tools) {
  return "\n\n# Tools\n\nYou have access to the following functions:\n\n<tools>" + lines(tools, bare) +
         "\n</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n\n"
         "<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n"
         "<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple lines\n"
         "</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n"
         "- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested within "
         "<tool_call></tool_call> XML tags\n- Required parameters MUST be specified\n"
         "- You may provide optional reasoning for your function call in natural language BEFORE the function call, but NOT "
         "after\n"
         "- If there is no function call available, answer the question like normal with your current knowledge and do not tell "
         "the "
         "user about function calls\n</IMPORTANT>";
}

// <function=name> with one tag per parameter, inside `open` … `close`.
std::string xml_calls(const std::vector<ToolCall>& calls, const char* open, const char* name_end, const char* value_pad,
                      const char* close) {
  std::string text;
  for (const auto& call : calls) {
    text += (text.empty() ? "" : "\n") + (open + call.name + name_end);
    for (const auto& [key, value] : object_arguments(call).items())
      text += fmt::format("\n<parameter={}>{}{}{}</parameter>", key, value_pad, value_text(value), value_pad);
    text += close;
  }
  return text;
}
std::string qwen3_5_calls(const std::vector<ToolCall>& calls) {
  return xml_calls(calls, "<tool_call>\n<function=", ">", "\n", "\n</function>\n</tool_call>");
}

std::string seed_describe(const Json& tools) {
  return "system\nYou are Doubao, a helpful AI assistant. You may call one or more functions to assist with the user query."
         "Tool List:\nYou are authorized to use the following tools (described in JSON Schema format). Before performing any "
         "task, you must "
         "decide how to call them based on the descriptions and parameters of these tools.\n" +
         python_dumps(tools) +
         "\n工具调用请遵循如下格式:\n<seed:tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>value_1</"
         "parameter>\n"
         "<parameter=example_parameter_2>This is the value for the second parameter\nthat can span\nmultiple lines</parameter>\n"
         "</function>\n</seed:tool_call>\n";
}
std::string seed_calls(const std::vector<ToolCall>& calls) {
  return xml_calls(calls, "\n<seed:tool_call>\n<function=", "", "", "\n</function>\n</seed:tool_call>");
}

std::string glm4_moe_describe(const Json& tools) {
  return "\n\n" + std::string(kToolsHead) + lines(tools, wrapped) +
         "\n</tools>\n\nFor each function call, output the function name and arguments within the following XML format:\n"
         "<tool_call>{function-name}\n<arg_key>{arg-key-1}</arg_key>\n<arg_value>{arg-value-1}</arg_value>\n"
         "<arg_key>{arg-key-2}</arg_key>\n<arg_value>{arg-value-2}</arg_value>\n...\n</tool_call>\n";
}
std::string glm4_moe_calls(const std::vector<ToolCall>& calls) {
  std::string text;
  for (const auto& call : calls) {
    text += (text.empty() ? "" : "\n") + ("\n<tool_call>" + call.name);
    for (const auto& [key, value] : object_arguments(call).items())
      text += "\n<arg_key>" + key + "</arg_key>\n<arg_value>" + value_text(value) + "</arg_value>";
  }
  return text;
}

std::string minimax1_describe(const Json& tools) {
  std::string text = "You are provided with these tools:\n<tools>\n";
  for (const auto& tool : tools) text += python_dumps(bare(tool)) + "\n";
  return text +
         "</tools>\n\nIf you need to call tools, please respond with <tool_calls></tool_calls> XML tags, and provide tool-name "
         "and "
         "json-object of arguments, following the format below:\n<tool_calls>\n{\"name\": <tool-name-1>, \"arguments\": "
         "<args-json-object-1>}\n...\n</tool_calls>";
}
std::string minimax1_calls(const std::vector<ToolCall>& calls) {
  return "<tool_calls>\n" + call_lines(calls, "", "") + "\n</tool_calls>";
}

std::string minimax2_describe(const Json& tools) {
  std::string text =
      "\n\n# Tools\n\nYou may call one or more tools to assist with the user query.\nHere are the tools available in JSONSchema "
      "format:\n\n<tools>\n";
  for (const auto& tool : tools) text += "<tool>" + python_dumps(bare(tool)) + "</tool>\n";
  return text +
         "</tools>\n\nWhen making tool calls, use XML format to invoke tools and pass parameters:\n\n<minimax:tool_call>\n"
         "<invoke name=\"tool-name-1\">\n<parameter name=\"param-key-1\">param-value-1</parameter>\n"
         "<parameter name=\"param-key-2\">param-value-2</parameter>\n...\n</invoke>\n</minimax:tool_call>";
}
std::string minimax2_calls(const std::vector<ToolCall>& calls) {
  std::string text;
  for (const auto& call : calls) {
    text += (text.empty() ? "" : "\n") + ("<invoke name=\"" + call.name + "\">");
    for (const auto& [key, value] : object_arguments(call).items())
      text += "\n<parameter name=\"" + key + "\">" + value_text(value) + "</parameter>";
    text += "\n</invoke>";
  }
  return text;
}

std::string lfm2_describe(const Json& tools) {
  Json list = Json::array();
  for (const auto& tool : tools) list.push_back(bare(tool));
  return "List of tools: <|tool_list_start|>" + python_dumps(list) + "<|tool_list_end|>";
}
std::string lfm2_calls(const std::vector<ToolCall>& calls) {
  std::string text;
  for (const auto& call : calls) {
    std::string arguments;
    for (const auto& [key, value] : object_arguments(call).items())
      arguments += (arguments.empty() ? "" : ", ") + key + "=" +
                   (value.is_string() ? "\"" + value.get<std::string>() + "\"" : python_dumps(value));
    text += (text.empty() ? "" : ", ") + call.name + "(" + arguments + ")";
  }
  return "<|tool_call_start|>[" + text + "]<|tool_call_end|>";
}

std::string phi4_mini_describe(const Json& tools) { return "<|tool|>" + python_dumps(tools) + "<|/tool|>"; }

const std::map<std::string, ToolFormat, std::less<>>& formats() {
  static const std::map<std::string, ToolFormat, std::less<>> table = {
      {"default", {default_describe, default_calls}},
      {"glm4", {glm4_describe, glm4_calls}},
      {"llama3", {llama3_describe, llama3_calls}},
      {"mistral", {mistral_describe, mistral_calls}},
      {"qwen", {qwen_describe, qwen_calls}},
      {"ling", {ling_describe, qwen_calls}},
      {"qwen3_5", {qwen3_5_describe, qwen3_5_calls}},
      {"seed_oss", {seed_describe, seed_calls}},
      {"glm4_moe", {glm4_moe_describe, glm4_moe_calls}},
      {"minimax1", {minimax1_describe, minimax1_calls}},
      {"minimax2", {minimax2_describe, minimax2_calls}},
      {"lfm2", {lfm2_describe, lfm2_calls}},
      {"phi4_mini", {phi4_mini_describe, default_calls}},
  };
  return table;
}

}  // namespace

const ToolFormat* find_tool_format(std::string_view name) {
  auto found = formats().find(name);
  return found == formats().end() ? nullptr : &found->second;
}

std::vector<std::string> tool_format_names() {
  std::vector<std::string> names;
  for (const auto& [name, format] : formats()) names.push_back(name);
  return names;
}

}  // namespace hone::text
