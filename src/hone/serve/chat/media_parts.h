// Media in the messages of a request, as parts of a content list or as lists next to the messages: forms of OpenAI, Anthropic,
// vLLM, ms-swift and transformers.
#pragma once
#include "hone/base/json.h"
#include "hone/data/conversation.h"

namespace hone::serve {

// Adds the medium of a part and returns its tag; empty if the part is none. Throws ApiError(400) naming the position.
std::string add_medium(const Json& part, const std::string& where, data::Conversation& conversation);
// The types of parts that add_medium() and text parts have, for messages.
inline constexpr const char* kPartTypes =
    "text (input_text), image_url (input_image, image), video_url (video) or input_audio (audio_url, audio)";

// ms-swift's lists of media next to the messages, `kind` "images", "videos" or "audios": each belongs to a tag <image> in the
// text of a user, or goes before the first message.
void add_listed_media(const Json& list, const std::string& kind, data::Conversation& conversation);

}  // namespace hone::serve
