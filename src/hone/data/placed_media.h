// Media of token ids that were rendered earlier: where they come from, and where their placeholders are. For other processes and
// checkpoints, which open them again.
#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hone/base/json.h"
#include "hone/data/conversation.h"
#include "hone/data/sounds/sounds.h"

namespace hone::data {

class Encoder;

struct MediaSource {
  enum class Kind { image, video, audio };
  Kind kind = Kind::image;
  std::string source;  // as in the lists of a Conversation
};
using MediaSources = std::vector<MediaSource>;

// A range of tokens that holds the placeholders of one or several media.
using PlaceholderRange = std::pair<size_t, size_t>;

// Media in the order of the text, in the form that is sent to other processes.
struct MediaPlacement {
  MediaSources sources;
  std::vector<PlaceholderRange> spans;
  bool empty() const { return sources.empty() && spans.empty(); }
};
Json to_json(const MediaPlacement& placement);
MediaPlacement placement_from(const Json& json);

struct PlacedMedia {
  std::vector<Picture> pictures;
  std::vector<Sound> sounds;
  bool empty() const { return pictures.empty() && sounds.empty(); }
};
// The positions of the placeholders; those of each medium are one span.
std::vector<PlaceholderRange> spans_of(const PlacedMedia& media);
// The same media, shifted by `tokens` positions.
PlacedMedia moved(PlacedMedia media, ptrdiff_t tokens);

// Opens the sources of a placement in `ids`. An error if the model's settings give them other placeholders.
Result<PlacedMedia> place_media(const Encoder& encoder, const std::vector<text::TokenId>& ids, const MediaPlacement& placement);

// Tags that a text cannot spell.
MediaTags reserved_tags();
std::string without_reserved_tags(std::string text);
// Such tags in place of a row's; media without a tag get one, and tags without a medium are text. After that, text of a model, a
// tool or an environment may be added to it.
void reserve_tags(const Encoder& encoder, Conversation& conversation);
// The same for a further message with this many images.
void reserve_image_tags(Message& message, size_t images);
size_t count_image_tags(std::string_view text);
// The media of a conversation with reserved tags, in the order of its text.
MediaSources media_sources(const Conversation& conversation);
// The inverse: a conversation of tags only.
Conversation conversation_of(const MediaSources& sources);

// An image that the model can read, as a data: URI. An error names the source.
Result<std::string> inline_image(const Encoder& encoder, const std::string& source);
// The medium as a part of a message, with all of its content: {"type": "image", "image": "data:…"}.
Result<Json> content_part(const Encoder& encoder, const MediaSource& medium);

}  // namespace hone::data
