// Anthropic's POST /v1/messages over the same engine: its blocks in, its blocks and events out.
#pragma once
#include "hone/serve/chat/choices.h"
#include "hone/serve/chat/task.h"

namespace hone::serve {

ChatTask read_anthropic(const Json& body, const ServedModel& served);
asio::awaitable<void> anthropic_messages(Exchange& exchange, Context& context);
asio::awaitable<void> anthropic_count_tokens(Exchange& exchange, Context& context);
// {"type": "error", "error": {"type", "message"}}
HttpResponse anthropic_problem(const ApiError& problem);

}  // namespace hone::serve
