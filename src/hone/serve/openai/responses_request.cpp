#include "hone/serve/chat/conversation.h"
#include "hone/serve/http/api_error.h"
#include "hone/serve/openai/responses.h"

namespace hone::serve {
namespace {

data::Message reasoning_message(const Json& item, const std::string& where) {
  std::string text;
  for (const char* name : {"content", "summary"})
    if (const auto& parts = member(item, name); text.empty() && !parts.is_null())
      text = read_text_parts(parts, where + "." + name);
  data::Message message{.role = "assistant"};
  message.extra["reasoning_content"] = std::move(text);
  return message;
}

// Text after a reasoning item of the assistant belongs to the same message.
void append_reply(std::string content, std::vector<data::Message>& out) {
  bool behind_thought =
      !out.empty() && out.back().role == "assistant" && out.back().content.empty() && !out.back().extra.is_null();
  if (!behind_thought) out.push_back({.role = "assistant"});
  out.back().content = std::move(content);
}

void append_item(const Json& item, const std::string& where, data::Conversation& conversation) {
  auto& out = conversation.messages;
  if (!item.is_object()) bad_value(where, fmt::format("found {}; expected an object", kind_name(item)));
  const auto& type = member(item, "type");
  if (type == "function_call") return out.push_back(read_call(item, where));
  if (type == "function_call_output")
    return out.push_back({.role = "tool", .content = read_text_parts(member(item, "output"), where + ".output", &conversation)});
  if (type == "reasoning") return out.push_back(reasoning_message(item, where));
  if (!type.is_null() && type != "message")
    bad_value(where + ".type",
              "expected message, function_call, function_call_output or reasoning; nothing is stored here to refer to");
  const auto& role = member(item, "role");
  auto content = read_text_parts(member(item, "content"), where + ".content", &conversation);
  if (role == "assistant") return append_reply(std::move(content), out);
  if (role != "user" && role != "system" && role != "developer")
    bad_value(where + ".role", "expected user, assistant, system or developer");
  out.push_back({.role = role == "user" ? "user" : "system", .content = std::move(content)});
}

data::Conversation read_items(const Json& input, const std::string& instructions) {
  auto conversation = empty_conversation();
  auto& out = conversation.messages;
  if (!instructions.empty()) out.push_back({.role = "system", .content = instructions});
  if (input.is_string()) {
    out.push_back({.role = "user", .content = input.get<std::string>()});
    return conversation;
  }
  if (!input.is_array() || input.empty() || input.size() > 4096)
    bad_value("input", "expected a text or a list of 1 to 4096 items");
  for (size_t i = 0; i < input.size(); ++i) append_item(input[i], fmt::format("input[{}]", i), conversation);
  return conversation;
}

Json read_functions(const Json& tools) {
  Json functions = Json::array();
  for (const auto& tool : tools) {
    auto where = fmt::format("tools[{}]", functions.size());
    if (!tool.is_object()) bad_value(where, fmt::format("found {}; expected an object", kind_name(tool)));
    if (member(tool, "type") != "function")
      bad_value(where + ".type",
                "expected \"function\": a name and parameters, which the client runs; others are run by OpenAI's servers");
    auto function = tool;
    function.erase("type");
    functions.push_back(std::move(function));
  }
  return read_tools(functions, "tools", true);
}

// text.format: {"type": "json_schema", "name", "schema"}
ResponseFormat read_text_format(const Json& text) {
  if (text.is_null()) return {};
  const auto& format = member(text, "format");
  if (format.is_null()) return {};
  const auto& type = format.is_object() ? member(format, "type") : format;
  if (type == "text") return {};
  if (type == "json_object") return {ResponseFormat::Kind::object, {}, "text.format"};
  if (type != "json_schema") bad_value("text.format.type", "expected text, json_object or json_schema");
  if (!member(format, "schema").is_object()) bad_value("text.format.schema", "expected a JSON schema");
  return {ResponseFormat::Kind::schema, format["schema"], "text.format.schema"};
}

void read_include(const Fields& fields, const ServedModel& served, ChatTask& task) {
  bool logprobs = fields.has("top_logprobs");
  for (const auto& name : fields.texts("include", 16, 64)) logprobs |= name == "message.output_text.logprobs";
  int64_t top = fields.integer("top_logprobs", 0);
  if (top > served.max_logprobs)
    bad_value("top_logprobs", fmt::format("found {}; this server returns at most {}", top, served.max_logprobs));
  if (logprobs) task.sampling.logprobs = top;
}

void refuse_stored(const Fields& fields) {
  for (const char* name : {"previous_response_id", "conversation"})
    if (fields.has(name)) bad_value(name, "nothing is stored here; send the full conversation as input");
  if (fields.flag("background", false)) bad_value("background", "nothing is stored here; responses come with their request");
  if (fields.text("truncation", "disabled") != "disabled")
    bad_value("truncation", "expected disabled: a conversation is read as it is sent");
}

}  // namespace

ChatTask read_response(const Json& body, const ServedModel& served) {
  Fields fields(kResponse, body);
  refuse_stored(fields);
  ChatTask task;
  task.model = fields.text("model");
  task.user = fields.text("user");
  task.conversation = read_items(fields.json("input"), fields.text("instructions"));
  if (fields.has("tools")) task.tools = read_functions(fields.json("tools"));
  task.tool_choice = read_tool_choice(fields.json("tool_choice"), task.tools);
  task.single_tool_call = !fields.flag("parallel_tool_calls", true);
  read_sampling(fields, served, task.sampling);
  read_include(fields, served, task);
  task.shape = read_text_format(fields.json("text"));
  if (fields.has("max_output_tokens")) task.max_tokens = fields.integer("max_output_tokens", 0);
  task.priority = fields.integer("priority", 0);
  task.stream.on = fields.flag("stream", false);
  if (const auto& reasoning = fields.json("reasoning"); reasoning.is_object() && member(reasoning, "effort") == "none")
    task.conversation.extra["chat_template_kwargs"]["enable_thinking"] = false;
  task.settings = {{"instructions", fields.json("instructions")},
                   {"metadata", fields.has("metadata") ? fields.json("metadata") : Json(Json::object())},
                   {"text", fields.has("text") ? fields.json("text") : Json{{"format", {{"type", "text"}}}}},
                   {"tool_choice", fields.has("tool_choice") ? fields.json("tool_choice") : Json("auto")},
                   {"tools", fields.has("tools") ? fields.json("tools") : Json(Json::array())},
                   {"reasoning", fields.json("reasoning")},
                   {"previous_response_id", nullptr},
                   {"truncation", "disabled"}};
  return task;
}

}  // namespace hone::serve
