// Tags such as <image> in a row's text, and media without a tag.
#pragma once
#include "hone/data/conversation.h"
#include "hone/text/templates/agent_format.h"

namespace hone::data {

// Media that do not fit their row: a bad row of the kind "media".
struct MediaError : text::FormatError {
  using text::FormatError::FormatError;
};

// As in ms-swift, a row without images may name them in its text, <img>path</img>. Only rows of files: a request must not read
// local files.
Result<std::vector<std::string>> named_images(const Conversation& conversation);
// Tags in place of images that are named in the text.
void put_image_tags(Conversation& conversation);

bool spells_media_tag(const Conversation& conversation);

// Names the first row of each kind. Tags that have a medium are markers by now.
void warn_of_surplus_tags(const Conversation& marked);

// Both throw MediaError: a text that spells the placeholder token of a medium, and media without a position in the tokens.
[[noreturn]] void refuse_spelled(const char* kind);
void require_placed(size_t placed, size_t all, const char* kind);

}  // namespace hone::data
