// Media that a request names by their addresses. Off unless the server was given hosts to fetch from.
#pragma once
#include "hone/data/conversation.h"
#include "hone/serve/chat/served_model.h"

namespace hone::serve {

bool is_media_url(std::string_view source);  // http or https

// Throws ApiError(400) where a request holds more media than the server takes.
void check_media(const data::Conversation& conversation, const MediaLimits& limits);
// Puts what they name in their place, as data: URIs; frames of a video are inside it, or none of them are. Throws ApiError(400).
void fetch_media(data::Conversation& conversation, const ServedModel& served);

}  // namespace hone::serve
