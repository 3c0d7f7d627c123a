#include "hone/serve/chat/media_parts.h"

#include "hone/media/source_scheme.h"
#include "hone/serve/schema/fields.h"

namespace hone::serve {
namespace {

constexpr size_t kShown = 100;

std::string base64_uri(const std::string& base64, const std::string& kind) {
  return fmt::format("data:{}/unknown;base64,{}", kind, base64);
}

std::string uri_or_url(const Json& value, const std::string& where, const std::string& kind) {
  if (!value.is_string())
    bad_value(where, fmt::format("found {}; expected data:{}/…;base64,… or an http address", kind_name(value), kind));
  auto text = media::normalized_source(value.get_ref<const std::string&>());
  if (!media::is_data_uri(text) && !media::is_url(text))
    bad_value(where, fmt::format("expected data:{}/…;base64,… or an http address", kind));
  return text;
}

// No medium is so short, and base64 has no '.', ':' or '~'. Of media, only JPEG, MP3 and AAC begin with '/', which is followed by
// "9", "+" or "/".
bool names_a_file(std::string_view text) {
  constexpr size_t kShortestMedium = 32;
  const bool is_rooted = text.size() > 1 && text[0] == '/' && std::string_view("9+/").find(text[1]) == std::string_view::npos;
  return text.size() < kShortestMedium || is_rooted || text.find_first_of(".:~\\") != std::string_view::npos;
}

// A data: URI, an address, or base64, as ms-swift takes them; of a video a list of frames too. Nothing is opened here.
std::string any_source(const Json& value, const std::string& where, const std::string& kind) {
  if (kind == "video" && value.is_array()) {
    Json frames = Json::array();
    for (size_t i = 0; i < value.size(); ++i) frames.push_back(any_source(value[i], fmt::format("{}[{}]", where, i), "image"));
    return dump(frames);
  }
  if (!value.is_string()) bad_value(where, fmt::format("found {}; expected a data: URI, base64 or an address", kind_name(value)));
  auto text = media::normalized_source(value.get_ref<const std::string&>());
  if (media::is_data_uri(text) || media::is_url(text)) return text;
  if (names_a_file(text))
    bad_value(where, fmt::format("\"{}\" is a path or an address that is not read; expected a data: URI, base64, or an http or "
                                 "https address: this server opens no files",
                                 text.substr(0, kShown)));
  return base64_uri(text, kind);
}

// {"image_url": {"url": "data:image/png;base64,…"}}, as OpenAI and vLLM write it, or, as in the Responses API, the URL itself.
std::string read_url_part(const Json& part, const std::string& where, const std::string& kind) {
  const auto name = kind + "_url";
  const auto& value = member(part, name.c_str());
  if (value.is_object()) return uri_or_url(member(value, "url"), fmt::format("{}.{}.url", where, name), kind);
  if (value.is_null() && !member(part, "file_id").is_null())
    bad_value(where + ".file_id", fmt::format("nothing is stored here to refer to; expected {} with a data: URI", name));
  return uri_or_url(value, fmt::format("{}.{}", where, name), kind);
}

// Anthropic's {"source": {"type": "base64", "media_type": "image/png", "data": …}}. What the bytes are decides, not their name.
std::string read_source(const Json& source, const std::string& where) {
  if (!source.is_object()) bad_value(where, "expected an object with type, media_type and data");
  const auto& type = member(source, "type");
  if (type == "url") return uri_or_url(member(source, "url"), where + ".url", "image");
  if (type != "base64") bad_value(where + ".type", "expected \"base64\": nothing is stored here to refer to");
  const auto media_type = text_field(source, "media_type", where);
  if (!media_type.starts_with("image/") && media_type != "application/octet-stream")
    bad_value(where + ".media_type", "expected image/png, image/jpeg, image/webp or image/gif");
  return base64_uri(text_field(source, "data", where), "image");
}

// {"type": "image", "image": …} of ms-swift, {"type": "image", "url": …} or "base64" of transformers.
std::string read_plain_part(const Json& part, const std::string& where, const std::string& kind) {
  if (const auto& value = member(part, kind.c_str()); !value.is_null()) return any_source(value, where + "." + kind, kind);
  if (const auto& url = member(part, "url"); !url.is_null()) return uri_or_url(url, where + ".url", kind);
  if (!member(part, "base64").is_null()) return base64_uri(text_field(part, "base64", where), kind);
  if (!member(part, "path").is_null())
    bad_value(where + ".path", fmt::format("this server opens no files; expected {}, url or base64 with the content", kind));
  bad_value(where, fmt::format("a part of type {0} without a medium; expected {0}, url or base64", kind));
}

std::string read_image_part(const Json& part, const std::string& where) {
  const auto& type = member(part, "type");
  if (type == "image" && part.contains("source")) return read_source(part["source"], where + ".source");
  if (type == "image" || part.contains("image")) return read_plain_part(part, where, "image");
  return read_url_part(part, where, "image");
}

// vLLM's audio_url, ms-swift's audio, and OpenAI's {"input_audio": {"data": base64, "format": "wav"}}.
std::string read_audio_part(const Json& part, const std::string& where) {
  const auto& type = member(part, "type");
  if (type == "audio") return read_plain_part(part, where, "audio");
  if (type == "audio_url") return read_url_part(part, where, "audio");
  const auto& sound = member(part, "input_audio");
  if (!sound.is_object()) bad_value(where + ".input_audio", "expected an object with data and format");
  return base64_uri(text_field(sound, "data", where + ".input_audio"), "audio");
}

std::string read_video_part(const Json& part, const std::string& where) {
  return member(part, "type") == "video" ? read_plain_part(part, where, "video") : read_url_part(part, where, "video");
}

// Media as parts have the limits of the lists `images`, `videos` and `audios`.
void expect_room(const std::vector<std::string>& media, std::string_view kind, const std::string& where) {
  const auto most = static_cast<size_t>(find_field(kChat, kind)->high);
  if (media.size() >= most) bad_value(where, fmt::format("more than {} {}", most, kind));
}

bool is_one_of(const Json& type, std::initializer_list<const char*> names) {
  return std::ranges::any_of(names, [&](const char* name) { return type == name; });
}

}  // namespace

std::string add_medium(const Json& part, const std::string& where, data::Conversation& conversation) {
  const auto& type = member(part, "type");
  if (is_one_of(type, {"image_url", "input_image", "image"})) {
    expect_room(conversation.images, "images", where);
    conversation.images.push_back(read_image_part(part, where));
    return conversation.tags.image;
  }
  if (is_one_of(type, {"video_url", "video"})) {
    expect_room(conversation.videos, "videos", where);
    conversation.videos.push_back(read_video_part(part, where));
    return conversation.tags.video;
  }
  if (!is_one_of(type, {"input_audio", "audio_url", "audio"})) return "";
  expect_room(conversation.audios, "audios", where);
  conversation.audios.push_back(read_audio_part(part, where));
  return conversation.tags.audio;
}

void add_listed_media(const Json& list, const std::string& kind, data::Conversation& conversation) {
  const auto singular = kind.substr(0, kind.size() - 1);
  auto& media = kind == "images" ? conversation.images : kind == "videos" ? conversation.videos : conversation.audios;
  const auto& own = conversation.tags;
  const auto &tag = kind == "images" ? own.image : kind == "videos" ? own.video : own.audio, written = "<" + singular + ">";
  if (list.empty()) return;
  if (!media.empty()) bad_value(kind, fmt::format("the messages have {} as parts; give one or the other", kind));
  for (size_t i = 0; i < list.size(); ++i) media.push_back(any_source(list[i], fmt::format("{}[{}]", kind, i), singular));
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

}  // namespace hone::serve
