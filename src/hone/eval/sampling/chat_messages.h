// A row as the messages of OpenAI's chat API, its images, videos and recordings as parts of their contents.
#pragma once
#include "hone/base/json.h"
#include "hone/data/conversation.h"
#include "hone/media/medium.h"

namespace hone::eval {

// Media are sent as data: URIs, those of addresses too, since a server may not fetch them. Missing tags go before the first
// message and surplus ones stay text, as when the row is trained on. Errors name the medium.
Result<Json> chat_messages(data::Conversation row, const media::SourceRules& sources);

}  // namespace hone::eval
