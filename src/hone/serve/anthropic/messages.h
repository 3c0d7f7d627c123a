// Anthropic's API over the same engine: POST /v1/messages with its blocks and events, and GET /v1/models.
#pragma once
#include "hone/base/json.h"
#include "hone/serve/chat/choices.h"
#include "hone/serve/chat/task.h"
#include "hone/serve/http/message.h"

namespace hone::serve {

ChatTask read_anthropic(const Json& body, const ServedModel& served);
asio::awaitable<void> anthropic_messages(Exchange& exchange, Context& context);
asio::awaitable<void> anthropic_count_tokens(Exchange& exchange, Context& context);
// {"type": "error", "error": {"type", "message"}}
HttpResponse anthropic_problem(const ApiError& problem);

// GET /v1/models shares its path with OpenAI's; Anthropic's clients send the protocol version in every request.
bool asks_as_anthropic(const HttpRequest& request);
// From the entries of OpenAI's list.
Json anthropic_model(const Json& model);
Json anthropic_models(const Json& list);

}  // namespace hone::serve
