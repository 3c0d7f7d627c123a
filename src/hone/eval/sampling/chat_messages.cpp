#include "hone/eval/sampling/chat_messages.h"

#include "hone/data/encode/media_tags.h"
#include "hone/data/encode/pictures.h"
#include "hone/data/videos/videos.h"
#include "hone/media/media_type.h"

namespace hone::eval {
namespace {

Result<std::string> embedded(const char* kind, const std::string& source, const media::SourceRules& sources) {
  auto medium = media::Medium::open(source, sources);
  if (!medium) return error("{} {}: {}", kind, media::describe_source(source), medium.error());
  const auto type = media::media_type(medium->bytes());
  if (!type.starts_with(kind) && !(type.starts_with("video") && kind == std::string_view("audio")))  // m4a, webm
    return error("{} {}: its content is {}; expected {}/…", kind, media::describe_source(source), type, kind);
  return media::data_uri(medium->bytes(), type);
}

Result<Json> url_part(const char* kind, const std::string& source, const media::SourceRules& sources) {
  const auto uri = embedded(kind, source, sources);
  if (!uri) return Error{uri.error()};
  const auto type = fmt::format("{}_url", kind);
  return Json{{"type", type}, {type, {{"url", *uri}}}};
}

// A list of frames has no type in OpenAI's own API; this is DashScope's and ms-swift's.
Result<Json> video_part(const std::string& source, media::SourceRules sources) {
  if (!source.starts_with('[')) {
    sources.most_bytes = media::kMostVideoBytes;
    return url_part("video", source, sources);
  }
  const auto frames = data::listed_frames(source);
  if (!frames) return Error{frames.error()};
  Json list = Json::array();
  for (const auto& frame : *frames) {
    const auto uri = embedded("image", frame, sources);
    if (!uri) return Error{uri.error()};
    list.push_back(*uri);
  }
  return Json{{"type", "video"}, {"video", std::move(list)}};
}

// {"data": base64, "format": "wav"}: the two halves of a data: URI.
Result<Json> audio_part(const std::string& source, const media::SourceRules& sources) {
  const auto uri = embedded("audio", source, sources);
  if (!uri) return Error{uri.error()};
  const size_t slash = uri->find('/'), semicolon = uri->find(';'), comma = uri->find(',');
  return Json{{"type", "input_audio"},
              {"input_audio", {{"data", uri->substr(comma + 1)}, {"format", uri->substr(slash + 1, semicolon - slash - 1)}}}};
}

// The media of one kind in a row, which are used up in the order of their tags.
struct MediaQueue {
  const char* kind;
  const std::string& tag;
  const std::vector<std::string>& media;
  size_t next = 0;

  size_t find(const std::string& text, size_t from) const { return next < media.size() ? text.find(tag, from) : text.npos; }
};

Result<Json> parts_of(const std::string& text, std::span<MediaQueue> queues, const media::SourceRules& sources) {
  Json parts = Json::array();
  auto add_text = [&](size_t begin, size_t end) {
    if (begin < end) parts.push_back({{"type", "text"}, {"text", text.substr(begin, end - begin)}});
  };
  size_t at = 0;
  while (true) {
    MediaQueue* nearest = nullptr;
    for (auto& queue : queues)
      if (queue.find(text, at) < (nearest ? nearest->find(text, at) : text.npos)) nearest = &queue;
    if (!nearest) break;
    const size_t tag = nearest->find(text, at);
    add_text(at, tag);
    const auto& source = nearest->media[nearest->next++];
    const std::string_view kind = nearest->kind;
    auto part = kind == "image"   ? url_part("image", source, sources)
                : kind == "video" ? video_part(source, sources)
                                  : audio_part(source, sources);
    if (!part) return part;
    parts.push_back(std::move(*part));
    at = tag + nearest->tag.size();
  }
  if (parts.empty()) return Json(text);
  add_text(at, text.size());
  return parts;
}

}  // namespace

Result<Json> chat_messages(data::Conversation row, const media::SourceRules& sources) {
  auto named = data::named_images(row);
  if (!named) return Error{named.error()};
  data::put_image_tags(row);
  if (row.images.empty()) row.images = std::move(*named);
  std::array queues{MediaQueue{"image", row.tags.image, row.images}, MediaQueue{"video", row.tags.video, row.videos},
                    MediaQueue{"audio", row.tags.audio, row.audios}};
  for (const auto& queue : queues)
    data::check_tags(row.messages, queue.media.size(), data::TagRule::add_missing, queue.tag, queue.kind);
  if (!row.images.empty() && row.extra.is_object() && row.extra.contains("objects"))
    return error("`objects`, whose boxes depend on how a model reads an image; write them into the messages");
  Json messages = Json::array();
  for (const auto& message : row.messages) {
    auto content = parts_of(message.content, queues, sources);
    if (!content) return content;
    messages.push_back({{"role", message.role}, {"content", std::move(*content)}});
  }
  return messages;
}

}  // namespace hone::eval
