// POST /v1/chat/completions.
#pragma once
#include "hone/serve/chat/answers.h"
#include "hone/serve/chat/task.h"

namespace hone::serve {

ChatTask read_chat(const Json& body, const ServedModel& served);
asio::awaitable<void> chat_completions(Exchange& exchange, Context& context);

}  // namespace hone::serve
