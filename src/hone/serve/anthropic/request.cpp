#include "hone/serve/anthropic/messages.h"
#include "hone/serve/chat/conversation.h"
#include "hone/serve/http/api_error.h"

namespace hone::serve {
namespace {

void append_block(const Json& block, const std::string& role, const std::string& where, data::Conversation& conversation) {
  auto& out = conversation.messages;
  if (!block.is_object()) bad_value(where, "expected an object with a type");
  const auto& type = member(block, "type");
  bool same = !out.empty() && out.back().role == role;
  if (type == "text" || (type == "image" && role == "user")) {
    auto text = read_text_part(block, where, &conversation);
    if (same)
      out.back().content += text;
    else
      out.push_back({.role = role, .content = std::move(text)});
  } else if (type == "tool_use" && role == "assistant") {
    const auto& name = member(block, "name");
    const auto& input = member(block, "input");
    if (!name.is_string() || !is_function_name(name.get<std::string>())) bad_value(where + ".name", "expected a function's name");
    if (!input.is_object()) bad_value(where + ".input", "expected an object");
    out.push_back({.role = "tool_call", .content = dump({{"name", name}, {"arguments", input}})});
  } else if (type == "tool_result" && role == "user") {
    const auto& content = member(block, "content");
    out.push_back(
        {.role = "tool", .content = content.is_null() ? "" : read_text_parts(content, where + ".content", &conversation)});
  } else if (type == "thinking" && role == "assistant") {
    if (!same) out.push_back({.role = role});
    out.back().extra["reasoning_content"] = member(block, "thinking").is_string() ? member(block, "thinking") : Json("");
  } else if (type != "redacted_thinking") {
    bad_value(where + ".type", "expected text, image, tool_use, tool_result or thinking");
  }
}

data::Conversation read_conversation(const Json& system, const Json& messages) {
  auto conversation = empty_conversation();
  auto& out = conversation.messages;
  bool instructed = !system.is_null() && system != Json::array();
  if (instructed) out.push_back({.role = "system", .content = read_text_parts(system, "system")});
  for (size_t i = 0; i < messages.size(); ++i) {
    auto where = fmt::format("messages[{}]", i);
    if (!messages[i].is_object()) bad_value(where, fmt::format("found {}; expected an object", kind_name(messages[i])));
    const auto& role = member(messages[i], "role");
    if (role != "user" && role != "assistant") bad_value(where + ".role", "expected user or assistant");
    const auto& content = member(messages[i], "content");
    if (content.is_string()) {
      out.push_back({.role = role, .content = content});
      continue;
    }
    if (!content.is_array() || content.size() > 1024)
      bad_value(where + ".content", "expected a text or a list of at most 1024 blocks");
    bool open_reply = role == "assistant" && i + 1 == messages.size();
    if (content.empty() && !open_reply) bad_value(where + ".content", "found an empty list; expected at least one block");
    for (size_t j = 0; j < content.size(); ++j)
      append_block(content[j], role, fmt::format("{}.content[{}]", where, j), conversation);
  }
  return conversation;
}

// Tools that run on Anthropic's servers, or whose schema is built into its models.
void refuse_foreign_tool(const Json& tool, const std::string& where) {
  if (!tool.is_object() || !member(tool, "type").is_string() || tool["type"] == "custom") return;
  bad_value(
      where,
      fmt::format("\"{}\" is a tool of Anthropic's own; expected \"custom\": a name and an input_schema, which the client runs",
                  tool["type"].get_ref<const std::string&>().substr(0, 64)));
}

// output_config.format: {"type": "json_schema", "schema": …}
ResponseFormat shape_of(const Json& config) {
  if (config.is_null()) return {};
  const auto& format = member(config, "format");
  if (format.is_null()) return {};
  if (!format.is_object() || member(format, "type") != "json_schema")
    bad_value("output_config.format", "expected an object with type json_schema and a schema");
  if (!member(format, "schema").is_object()) bad_value("output_config.format.schema", "expected a JSON schema");
  return {ResponseFormat::Kind::schema, format["schema"], "output_config.format.schema"};
}

Json tools_of(const Json& tools) {
  Json functions = Json::array();
  for (const auto& tool : tools) {
    Json function = tool;
    refuse_foreign_tool(tool, fmt::format("tools[{}].type", functions.size()));
    if (function.is_object()) {
      if (auto schema = member(tool, "input_schema"); !schema.is_null()) function["parameters"] = schema;
      for (const char* name : {"input_schema", "type", "cache_control"}) function.erase(name);
    }
    functions.push_back(std::move(function));
  }
  return read_tools(functions, "tools", true);
}

ToolChoice choice_of(const Json& choice, const Json& tools) {
  if (choice.is_null()) return read_tool_choice({}, tools);
  const auto& type = member(choice, "type");
  if (type == "auto" || type == "any" || type == "none") return read_tool_choice(type, tools);
  if (type == "tool") return read_tool_choice({{"name", member(choice, "name")}}, tools);
  bad_value("tool_choice.type", "expected auto, any, tool or none");
}

}  // namespace

ChatTask read_anthropic(const Json& body, const ServedModel& served) {
  Fields fields(kMessages, body);
  ChatTask task;
  task.model = fields.text("model");
  task.conversation = read_conversation(fields.json("system"), fields.json("messages"));
  if (fields.has("tools")) task.tools = tools_of(fields.json("tools"));
  const auto& choice = fields.json("tool_choice");
  task.tool_choice = choice_of(choice, task.tools);
  task.single_tool_call = choice.is_object() && member(choice, "disable_parallel_tool_use") == true;
  task.sampling = served.defaults;
  task.sampling.seed = fresh_seed();
  task.sampling.temperature = fields.real("temperature", task.sampling.temperature);
  task.sampling.top_p = fields.real("top_p", task.sampling.top_p);
  task.sampling.top_k = std::max<int64_t>(0, fields.integer("top_k", task.sampling.top_k));
  for (auto& text : fields.texts("stop_sequences", 16, 256)) task.sampling.stop.push_back(std::move(text));
  task.shape = shape_of(fields.json("output_config"));
  task.max_tokens = fields.integer("max_tokens", 1);
  task.stream.on = fields.flag("stream", false);
  if (const auto& thinking = fields.json("thinking"); thinking.is_object())
    if (member(thinking, "type") == "disabled") task.conversation.extra["chat_template_kwargs"]["enable_thinking"] = false;
  return task;
}

}  // namespace hone::serve
