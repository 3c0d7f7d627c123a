// Media that a request refers to by URL. Disabled unless the server has allowed hosts.
#pragma once
#include "hone/data/conversation.h"
#include "hone/serve/chat/served_model.h"

namespace hone::serve {

// Throws ApiError(400) if a request has more media than allowed.
void check_media(const data::Conversation& conversation, const MediaLimits& limits);
// Replaces URLs by data: URIs; frames of a video are either all inline or all fetched. Throws ApiError(400).
void fetch_media(data::Conversation& conversation, const ServedModel& served);

}  // namespace hone::serve
