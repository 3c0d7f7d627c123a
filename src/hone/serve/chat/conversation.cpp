#include "hone/serve/chat/conversation.h"

#include <algorithm>

#include "hone/data/placed_media.h"
#include "hone/media/source_scheme.h"
#include "hone/serve/http/api_error.h"

namespace hone::serve {
namespace {

constexpr size_t kMostCalls = 64, kMostParts = 1024, kShown = 100;
constexpr std::string_view kReserved[] = {"messages",  "tools",     "documents", "add_generation_prompt",
                                          "bos_token", "eos_token", "pad_token", "unk_token"};

std::string text_field(const Json& object, const char* name, const std::string& where) {
  auto found = object.find(name);
  if (found == object.end() || !found->is_string()) bad_value(where + "." + name, "expected a text");
  return found->get<std::string>();
}

std::string inline_data(const Json& url, const std::string& where, const char* kind) {
  if (!url.is_string())
    bad_value(where, where.ends_with(".url") ? "expected a text" : "expected an address or an object with a url");
  auto text = media::normalized_source(url.get_ref<const std::string&>());
  if (!media::is_data_uri(text) && !media::is_url(text))
    bad_value(where, fmt::format("expected data:{}/…;base64,… or an http address", kind));
  return text;
}

std::string image_data(const Json& url, const std::string& where) { return inline_data(url, where, "image"); }

// Anthropic's {"source": {"type": "base64", "media_type": "image/png", "data": …}}.
std::string read_image_source(const Json& part, const std::string& where) {
  const auto source = part.value("source", Json());
  if (!source.is_object()) bad_value(where, "expected an object with type, media_type and data");
  if (source.value("type", Json()) == "url") return image_data(source.value("url", Json()), where + ".url");
  if (source.value("type", Json()) != "base64")
    bad_value(where + ".type", "expected \"base64\": nothing is stored here to refer to");
  const auto kind = text_field(source, "media_type", where);
  if (!kind.starts_with("image/")) bad_value(where + ".media_type", "expected image/png, image/jpeg, image/webp or image/gif");
  return fmt::format("data:{};base64,{}", kind, text_field(source, "data", where));
}

// {"image_url": {"url": "data:image/png;base64,…"}}, or, in the Responses API, the URL itself.
bool is_image_part(const Json& type) { return type == "image_url" || type == "input_image" || type == "image"; }

// ms-swift also takes {"image": "data:image/png;base64,…"}.
std::string read_image_part(const Json& part, const std::string& where) {
  if (part.contains("image")) return image_data(part["image"], where + ".image");
  if (part.value("type", Json()) == "image") return read_image_source(part, where + ".source");
  const auto value = part.value("image_url", Json());
  return value.is_object() ? image_data(value.value("url", Json()), where + ".image_url.url")
                           : image_data(value, where + ".image_url");
}

// OpenAI's {"input_audio": {"data": base64, "format": "wav"}}, and vLLM's {"audio_url": {"url": "data:audio/wav;base64,…"}}.
// ms-swift's is {"audio": "data:audio/wav;base64,…"}.
bool is_audio_part(const Json& type) { return type == "input_audio" || type == "audio_url" || type == "audio"; }

std::string read_audio_part(const Json& part, const std::string& where) {
  if (part.value("type", Json()) == "audio") return inline_data(part.value("audio", Json()), where + ".audio", "audio");
  if (part.value("type", Json()) == "audio_url") {
    const auto value = part.value("audio_url", Json());
    const auto url = value.is_object() ? value.value("url", Json()) : value;
    return inline_data(url, where + ".audio_url", "audio");
  }
  const auto sound = part.value("input_audio", Json());
  if (!sound.is_object()) bad_value(where + ".input_audio", "expected an object with data and format");
  return fmt::format("data:audio/unknown;base64,{}", text_field(sound, "data", where + ".input_audio"));
}

// vLLM's {"video_url": {"url": "data:video/mp4;base64,…"}}, or {"video": [frames as data: URIs]}.
std::string read_video_part(const Json& part, const std::string& where) {
  if (part.value("type", Json()) == "video_url") {
    const auto value = part.value("video_url", Json());
    const bool nested = value.is_object();
    return inline_data(nested ? value.value("url", Json()) : value, where + (nested ? ".video_url.url" : ".video_url"), "video");
  }
  const auto value = part.value("video", Json());
  if (!value.is_array()) return inline_data(value, where + ".video", "video");
  for (size_t i = 0; i < value.size(); ++i) image_data(value[i], fmt::format("{}.video[{}]", where, i));
  return dump(value);
}

// No medium is so short, and base64 has no '.', ':' or '~'. Of media, only JPEG, MP3 and AAC begin with '/', which is followed by
// "9", "+" or "/".
bool names_a_file(std::string_view text) {
  constexpr size_t kShortestMedium = 32;
  const bool is_rooted = text.size() > 1 && text[0] == '/' && std::string_view("9+/").find(text[1]) == std::string_view::npos;
  return text.size() < kShortestMedium || is_rooted || text.find_first_of(".:~\\") != std::string_view::npos;
}

// A data: URI, an address, or base64 as ms-swift's client makes it of a file. Nothing is opened here.
std::string listed_medium(const Json& value, const std::string& where, const std::string& kind) {
  if (kind == "video" && value.is_array()) {
    Json frames = Json::array();
    for (size_t i = 0; i < value.size(); ++i) frames.push_back(listed_medium(value[i], fmt::format("{}[{}]", where, i), "image"));
    return dump(frames);
  }
  if (!value.is_string()) bad_value(where, fmt::format("found {}; expected a data: URI, base64 or an address", kind_name(value)));
  auto text = media::normalized_source(value.get_ref<const std::string&>());
  if (media::is_data_uri(text) || media::is_url(text)) return text;
  if (names_a_file(text))
    bad_value(where, fmt::format("\"{}\" is a path or an address that is not read; expected a data: URI, base64, or an http or "
                                 "https address: this server opens no files",
                                 text.substr(0, kShown)));
  return fmt::format("data:{}/unknown;base64,{}", kind, text);
}

// Media as parts have the limits of the lists `images`, `videos` and `audios`.
void expect_room(const std::vector<std::string>& media, std::string_view kind, const std::string& where) {
  const auto most = static_cast<size_t>(find_field(kChat, kind)->high);
  if (media.size() >= most) bad_value(where, fmt::format("more than {} {}", most, kind));
}

// Adds a part's medium and returns its tag; empty if it has none.
std::string add_medium(const Json& part, const std::string& where, data::Conversation& media) {
  const auto type = part.value("type", Json());
  if (is_image_part(type)) {
    expect_room(media.images, "images", where);
    media.images.push_back(read_image_part(part, where));
    return media.tags.image;
  }
  if (type == "video_url" || type == "video") {
    expect_room(media.videos, "videos", where);
    media.videos.push_back(read_video_part(part, where));
    return media.tags.video;
  }
  if (!is_audio_part(type)) return "";
  expect_room(media.audios, "audios", where);
  media.audios.push_back(read_audio_part(part, where));
  return media.tags.audio;
}

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
    bad_value(where + ".type", media ? "expected \"text\", \"image_url\", \"video_url\" or \"input_audio\""
                                     : "only text is read here; expected \"text\"");
  return text_field(part, type == "refusal" ? "refusal" : "text", where);
}

void add_listed_media(const Json& list, const std::string& kind, data::Conversation& conversation) {
  const auto singular = kind.substr(0, kind.size() - 1);
  auto& media = kind == "images" ? conversation.images : kind == "videos" ? conversation.videos : conversation.audios;
  const auto& own = conversation.tags;
  const auto &tag = kind == "images" ? own.image : kind == "videos" ? own.video : own.audio, written = "<" + singular + ">";
  if (list.empty()) return;
  if (!media.empty()) bad_value(kind, fmt::format("the messages have {} as parts; give one or the other", kind));
  for (size_t i = 0; i < list.size(); ++i) media.push_back(listed_medium(list[i], fmt::format("{}[{}]", kind, i), singular));
  size_t left = media.size();
  data::Message* first = nullptr;
  for (auto& message : conversation.messages) {
    if (message.role != "user") continue;
    if (!first) first = &message;
    for (size_t at = 0; left > 0 && (at = message.content.find(written, at)) != std::string::npos; at += tag.size(), --left)
      message.content.replace(at, written.size(), tag);
  }
  if (left > 0 && !first) bad_value(kind, "there is no message of a user that they could belong to");
  for (; left > 0; --left) first->content.insert(0, tag);
}

data::Conversation read_messages(const Json& messages) {
  auto conversation = empty_conversation();
  for (size_t i = 0; i < messages.size(); ++i) {
    auto where = fmt::format("messages[{}]", i);
    const auto& message = messages[i];
    if (!message.is_object()) bad_value(where, fmt::format("found {}; expected an object", kind_name(message)));
    auto role = text_field(message, "role", where);
    auto content = [&](data::Conversation* media) {
      return read_text_parts(message.value("content", Json()), where + ".content", media);
    };
    if (role == "assistant")
      append_assistant(message, where, conversation);
    else if (role == "system" || role == "developer")
      conversation.messages.push_back({.role = "system", .content = content(nullptr)});
    else if (role == "user")
      conversation.messages.push_back({.role = "user", .content = content(&conversation)});
    else if (role == "tool" || role == "function")
      conversation.messages.push_back({.role = "tool", .content = content(&conversation)});
    else
      bad_value(where + ".role",
                fmt::format("found \"{}\"; expected system, developer, user, assistant or tool", role.substr(0, 32)));
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
