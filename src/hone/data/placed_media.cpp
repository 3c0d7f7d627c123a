#include "hone/data/placed_media.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "hone/base/error.h"
#include "hone/base/strings/replace_all.h"
#include "hone/data/encode/encoder.h"
#include "hone/data/encode/media_tags.h"
#include "hone/data/videos/videos.h"
#include "hone/media/source_scheme.h"

namespace hone::data {
namespace {

constexpr std::string_view kReserved = "\uFDD4", kReplacement = "\uFFFD";
constexpr std::array<const char*, 3> kMediaNames = {"image", "video", "audio"};

using Kind = MediaSource::Kind;

const char* name_of(Kind kind) { return kMediaNames[static_cast<size_t>(kind)]; }

const std::string& tag_of(const MediaTags& tags, Kind kind) {
  return kind == Kind::image ? tags.image : kind == Kind::video ? tags.video : tags.audio;
}

template <class Media>
auto& list_of(Media& conversation, Kind kind) {
  return kind == Kind::image ? conversation.images : kind == Kind::video ? conversation.videos : conversation.audios;
}

constexpr std::array kMediaKinds = {Kind::image, Kind::video, Kind::audio};

// Replaces the first `count` tags.
void replace_tags(std::vector<Message>& messages, const std::string& written, const std::string& tag, size_t count) {
  size_t replaced = 0;
  for (auto& message : messages)
    for (size_t at = 0; replaced < count && (at = message.content.find(written, at)) != std::string::npos; at += tag.size())
      message.content.replace(at, written.size(), tag), ++replaced;
}

// Whether the spans are in ascending order and end within `tokens`.
bool are_ordered(const std::vector<PlaceholderRange>& spans, size_t tokens) {
  size_t last = 0;
  for (const auto& [begin, end] : spans) {
    if (begin < last || end < begin || end > tokens) return false;
    last = end;
  }
  return true;
}

std::vector<size_t> positions_in(const std::vector<PlaceholderRange>& spans) {
  std::vector<size_t> positions;
  for (const auto& [begin, end] : spans)
    for (size_t at = begin; at < end; ++at) positions.push_back(at);
  return positions;
}

Result<std::string> inlined(const std::string& source, const media::SourceRules& rules) {
  if (media::is_data_uri(source)) return source;
  auto medium = media::Medium::open(source, rules);
  if (!medium) return error("{}: {}", media::describe_source(source), medium.error());
  return media::data_uri(medium->bytes());
}

}  // namespace

Json to_json(const MediaPlacement& placement) {
  Json sources = Json::array(), spans = Json::array();
  for (const auto& medium : placement.sources) sources.push_back({static_cast<int>(medium.kind), medium.source});
  for (const auto& [begin, end] : placement.spans) spans.push_back({begin, end});
  return {{"sources", std::move(sources)}, {"spans", std::move(spans)}};
}

MediaPlacement placement_from(const Json& json) {
  MediaPlacement placement;
  for (const auto& medium : json.at("sources"))
    placement.sources.push_back({static_cast<Kind>(medium.at(0).get<int>()), medium.at(1).get<std::string>()});
  for (const auto& span : json.at("spans")) placement.spans.emplace_back(span.at(0).get<size_t>(), span.at(1).get<size_t>());
  return placement;
}

std::vector<PlaceholderRange> spans_of(const PlacedMedia& media) {
  std::vector<PlaceholderRange> spans;
  const auto add = [&](size_t first, int64_t tokens, const std::vector<size_t>& scattered) {
    if (scattered.empty())
      spans.emplace_back(first, first + static_cast<size_t>(tokens));
    else
      for (const auto at : scattered) spans.emplace_back(at, at + 1);
  };
  for (const auto& picture : media.pictures) add(picture.first, picture.geometry.tokens, picture.scattered);
  for (const auto& sound : media.sounds) add(sound.first, sound.tokens, sound.scattered);
  std::ranges::sort(spans);
  std::vector<PlaceholderRange> joined;
  for (const auto& span : spans)
    if (!joined.empty() && joined.back().second == span.first)
      joined.back().second = span.second;
    else
      joined.push_back(span);
  return joined;
}

PlacedMedia moved(PlacedMedia media, ptrdiff_t tokens) {
  const auto move = [tokens](auto& medium) {
    medium.first = static_cast<size_t>(static_cast<ptrdiff_t>(medium.first) + tokens);
    for (auto& at : medium.scattered) at = static_cast<size_t>(static_cast<ptrdiff_t>(at) + tokens);
  };
  for (auto& picture : media.pictures) move(picture);
  for (auto& sound : media.sounds) move(sound);
  return media;
}

// The media are rendered alone, and their placeholders exchanged for those in `ids`, in order. A model may sample placeholders,
// which have no medium, so only those of the placement count.
Result<PlacedMedia> place_media(const Encoder& encoder, const std::vector<text::TokenId>& ids, const MediaPlacement& placement) {
  PlacedMedia media;
  const auto rendered = encoder.encode_prompt(conversation_of(placement.sources), &media.pictures, &media.sounds);
  if (!rendered) return Error{rendered.error()};
  if (!are_ordered(placement.spans, ids.size())) return error("placeholders outside of the {} tokens", ids.size());
  const auto made = positions_in(spans_of(media)), given = positions_in(placement.spans);
  bool fits = made.size() == given.size();
  std::unordered_map<size_t, size_t> place;
  for (size_t i = 0; fits && i < made.size(); ++i) {
    fits = (*rendered)[made[i]] == ids[given[i]];
    place[made[i]] = given[i];
  }
  if (!fits)
    return error("the tokens have {} placeholders for {} media, of which the settings of this model make {}", given.size(),
                 placement.sources.size(), made.size());
  const auto move = [&](auto& medium) {
    medium.first = place.contains(medium.first) ? place[medium.first] : 0;
    for (auto& at : medium.scattered) at = place[at];
  };
  for (auto& picture : media.pictures) move(picture);
  for (auto& sound : media.sounds) move(sound);
  return media;
}

MediaTags reserved_tags() { return {"\uFDD4image\uFDD4", "\uFDD4video\uFDD4", "\uFDD4audio\uFDD4"}; }

std::string without_reserved_tags(std::string text) {
  if (text.find(kReserved) == std::string::npos) return text;
  return replace_all(std::move(text), kReserved, kReplacement);
}

void reserve_tags(const Encoder& encoder, Conversation& conversation) {
  if (encoder.pictures() && encoder.config().dialect != Dialect::factory)
    if (auto named = named_images(conversation); named && !named->empty()) {
      put_image_tags(conversation);
      conversation.images = std::move(*named);
    }
  const auto tags = reserved_tags();
  for (auto& message : conversation.messages) message.content = without_reserved_tags(std::move(message.content));
  for (const auto kind : kMediaKinds) {
    const auto count = list_of(conversation, kind).size();
    replace_tags(conversation.messages, tag_of(conversation.tags, kind), tag_of(tags, kind), count);
    check_tags(conversation.messages, count, TagRule::add_missing, tag_of(tags, kind), name_of(kind));
  }
  conversation.tags = tags;
}

void reserve_image_tags(Message& message, size_t images) {
  std::vector<Message> messages{std::move(message)};
  messages[0].content = without_reserved_tags(std::move(messages[0].content));
  check_tags(messages, images, TagRule::add_missing, MediaTags().image, name_of(Kind::image));
  replace_tags(messages, MediaTags().image, reserved_tags().image, images);
  message = std::move(messages[0]);
}

size_t count_image_tags(std::string_view text) {
  const auto tag = MediaTags().image;
  size_t count = 0;
  for (size_t at = text.find(tag); at != text.npos; at = text.find(tag, at + tag.size())) ++count;
  return count;
}

MediaSources media_sources(const Conversation& conversation) {
  MediaSources sources;
  std::array<size_t, 3> next{};
  for (const auto& message : conversation.messages) {
    for (size_t at = 0;;) {
      size_t nearest = std::string::npos;
      Kind found = Kind::image;
      for (const auto kind : kMediaKinds) {
        if (next[static_cast<size_t>(kind)] == list_of(conversation, kind).size()) continue;
        const auto here = message.content.find(tag_of(conversation.tags, kind), at);
        if (here < nearest) nearest = here, found = kind;
      }
      if (nearest == std::string::npos) break;
      sources.push_back({found, list_of(conversation, found)[next[static_cast<size_t>(found)]++]});
      at = nearest + tag_of(conversation.tags, found).size();
    }
  }
  return sources;
}

Conversation conversation_of(const MediaSources& sources) {
  Conversation conversation;
  conversation.tags = reserved_tags();
  conversation.messages.push_back({.role = "user", .content = ""});
  for (const auto& medium : sources) {
    list_of(conversation, medium.kind).push_back(medium.source);
    conversation.messages.front().content += tag_of(conversation.tags, medium.kind);
  }
  return conversation;
}

Result<std::string> inline_image(const Encoder& encoder, const std::string& source) {
  const auto failed = [&](const std::string& why) { return error("image {}: {}", media::describe_source(source), why); };
  const auto medium = media::Medium::open(source, encoder.pictures()->sources);
  if (!medium) return failed(medium.error());
  if (const auto geometry = read_geometry(*medium, *encoder.pictures()); !geometry) return failed(geometry.error());
  return media::data_uri(medium->bytes());
}

Result<Json> content_part(const Encoder& encoder, const MediaSource& medium) {
  const char* name = name_of(medium.kind);
  const auto part = [&](const Json& content) { return Json{{"type", name}, {name, content}}; };
  const bool is_heard = medium.kind == Kind::audio;
  HONE_CHECK(is_heard ? encoder.sounds() != nullptr : encoder.pictures() != nullptr, "a medium that the model does not take");
  if (medium.kind == Kind::video && medium.source.starts_with("[")) {
    const auto frames = parse_json(medium.source);
    if (!frames) return Error{frames.error()};
    Json list = Json::array();
    for (const auto& frame : *frames) {
      auto content = inlined(frame.get<std::string>(), encoder.pictures()->sources);
      if (!content) return Error{content.error()};
      list.push_back(std::move(*content));
    }
    return part(list);
  }
  auto content = inlined(medium.source, is_heard                     ? encoder.sounds()->sources
                                        : medium.kind == Kind::video ? video_sources(*encoder.pictures())
                                                                     : encoder.pictures()->sources);
  if (!content) return Error{content.error()};
  return part(*content);
}

}  // namespace hone::data
