#include "hone/serve/chat/conversation.h"

#include <algorithm>

#include "hone/data/placed_media.h"
#include "hone/serve/chat/media_parts.h"
#include "hone/serve/http/api_error.h"

namespace hone::serve {
namespace {

constexpr size_t kMostCalls = 64, kMostParts = 1024;
constexpr std::string_view kReserved[] = {"messages",  "tools",     "documents", "add_generation_prompt",
                                          "bos_token", "eos_token", "pad_token", "unk_token"};

void append_assistant(const Json& message, const std::string& where, data::Conversation& conversation) {
  auto& out = conversation.messages;
  data::Message reply{.role = "assistant"};
  if (auto content = message.value("content", Json()); !content.is_null())
    reply.content = read_text_parts(content, where + ".content", &conversation);
  for (const char* name : {"reasoning_content", "reasoning"})
    if (auto thought = message.value(name, Json()); thought.is_string()) reply.extra["reasoning_content"] = thought;
  auto calls = message.value("tool_calls", Json());
  auto legacy = message.value("function_call", Json());
  bool calls_something = (calls.is_array() && !calls.empty()) || legacy.is_object();
  if (!reply.content.empty() || !reply.extra.is_null() || !calls_something) out.push_back(std::move(reply));
  if (legacy.is_object()) out.push_back(read_call(legacy, where + ".function_call"));
  if (calls.is_null()) return;
  if (!calls.is_array() || calls.size() > kMostCalls)
    bad_value(where + ".tool_calls", fmt::format("expected a list of at most {} calls", kMostCalls));
  for (size_t i = 0; i < calls.size(); ++i) {
    auto field = fmt::format("{}.tool_calls[{}]", where, i);
    if (!calls[i].is_object()) bad_value(field, "expected an object");
    out.push_back(read_call(calls[i].value("function", Json()), field + ".function"));
  }
}

std::string shown_word(const Json& word) {
  return word.is_string() ? fmt::format("\"{}\"", word.get_ref<const std::string&>().substr(0, 32)) : kind_name(word);
}

}  // namespace

bool is_function_name(const std::string& name) {
  auto plain = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; };
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), plain);
}

data::Message read_call(const Json& function, const std::string& where) {
  if (!function.is_object()) bad_value(where, "expected an object with name and arguments");
  auto name = text_field(function, "name", where);
  if (!is_function_name(name)) bad_value(where + ".name", "expected letters, digits, _ . or -, at most 64");
  auto given = function.value("arguments", Json("{}"));
  Json arguments = given;
  if (given.is_string()) {
    auto parsed =
        parse_json(given.get_ref<const std::string&>().empty() ? "{}" : given.get_ref<const std::string&>(), {.depth = 64});
    if (!parsed) bad_value(where + ".arguments", "not JSON");
    arguments = std::move(*parsed);
  }
  if (!arguments.is_object()) bad_value(where + ".arguments", "expected a JSON object");
  return {.role = "tool_call", .content = dump({{"name", name}, {"arguments", arguments}})};
}

data::Conversation empty_conversation() {
  data::Conversation conversation;
  conversation.tags = data::reserved_tags();
  return conversation;
}

std::string read_text_parts(const Json& content, const std::string& where, data::Conversation* media) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) bad_value(where, fmt::format("found {}; expected a text or a list of text parts", kind_name(content)));
  if (content.size() > kMostParts) bad_value(where, fmt::format("more than {} parts", kMostParts));
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) text += read_text_part(content[i], fmt::format("{}[{}]", where, i), media);
  return text;
}

std::string read_text_part(const Json& part, const std::string& where, data::Conversation* media) {
  if (part.is_string()) return part.get<std::string>();
  if (!part.is_object()) bad_value(where, "expected an object with type and text");
  auto type = part.value("type", Json());
  if (auto tag = media ? add_medium(part, where, *media) : std::string(); !tag.empty()) return tag;
  bool text_part =
      type == "text" || type == "input_text" || type == "output_text" || type == "reasoning_text" || type == "summary_text";
  if (!text_part && type != "refusal")
    bad_value(where + ".type", fmt::format("found {}; expected {}", shown_word(type), media ? kPartTypes : "text alone here"));
  return text_field(part, type == "refusal" ? "refusal" : "text", where);
}

data::Conversation read_messages(const Json& messages) {
  auto conversation = empty_conversation();
  for (size_t i = 0; i < messages.size(); ++i) {
    auto where = fmt::format("messages[{}]", i);
    const auto& message = messages[i];
    if (!message.is_object()) bad_value(where, fmt::format("found {}; expected an object", kind_name(message)));
    const auto& role = member(message, "role");
    auto content = [&] { return read_text_parts(message.value("content", Json()), where + ".content", &conversation); };
    if (role == "assistant")
      append_assistant(message, where, conversation);
    else if (role == "system" || role == "developer")
      conversation.messages.push_back({.role = "system", .content = content()});
    else if (role == "user")
      conversation.messages.push_back({.role = "user", .content = content()});
    else if (role == "tool" || role == "function")
      conversation.messages.push_back({.role = "tool", .content = content()});
    else
      bad_value(where + ".role", fmt::format("found {}; expected system, developer, user, assistant or tool",
                                             message.contains("role") ? shown_word(role) : "nothing"));
  }
  return conversation;
}

Json read_tools(const Json& tools, const std::string& where, bool legacy) {
  Json out = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    auto field = fmt::format("{}[{}]", where, i);
    if (!tools[i].is_object()) bad_value(field, fmt::format("found {}; expected an object", kind_name(tools[i])));
    if (!legacy && tools[i].value("type", Json("function")) != "function") bad_value(field + ".type", "expected \"function\"");
    auto function = legacy ? tools[i] : tools[i].value("function", Json());
    auto inner = legacy ? field : field + ".function";
    if (!function.is_object()) bad_value(inner, "expected an object with name and parameters");
    if (!is_function_name(text_field(function, "name", inner)))
      bad_value(inner + ".name", "expected letters, digits, _ . or -, at most 64");
    if (auto parameters = function.value("parameters", Json()); !parameters.is_null() && !parameters.is_object())
      bad_value(inner + ".parameters", "expected a JSON schema");
    if (auto text = function.value("description", Json()); !text.is_null() && !text.is_string())
      bad_value(inner + ".description", "expected a text");
    function.erase("strict");  // arguments of forced calls always follow the schema
    out.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return out;
}

ToolChoice read_tool_choice(const Json& choice, const Json& tools) {
  using Mode = ToolChoice::Mode;
  if (choice.is_null()) return {tools.empty() ? Mode::none : Mode::automatic, ""};
  if (choice == "none") return {Mode::none, ""};
  if (choice == "auto") return {tools.empty() ? Mode::none : Mode::automatic, ""};
  if (tools.empty()) bad_value("tool_choice", "there are no tools to choose from");
  if (choice == "required" || choice == "any") return {Mode::required, ""};
  Json name;
  if (choice.is_object()) {
    auto function = choice.value("function", Json());
    name = function.is_object() ? function.value("name", Json()) : choice.value("name", Json());
  }
  if (!name.is_string())
    bad_value("tool_choice", "expected none, auto, required or {\"type\": \"function\", \"function\": {\"name\": …}}");
  for (const auto& tool : tools)
    if (tool["function"]["name"] == name) return {Mode::named, name.get<std::string>()};
  bad_value("tool_choice", "names a function that is not among the tools");
}

Json read_template_values(const Json& values) {
  for (const auto& [name, value] : values.items()) {
    auto where = "chat_template_kwargs." + name.substr(0, 64);
    if (std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved))
      bad_value(where, "this name belongs to the server");
    bool plain =
        value.is_boolean() || value.is_number() || (value.is_string() && value.get_ref<const std::string&>().size() <= 256);
    if (!plain) bad_value(where, "expected true, false, a number or a short text");
  }
  return values;
}

}  // namespace hone::serve
