// POST /v1/chat/completions.
#pragma once
#include "hone/serve/chat/choices.h"
#include "hone/serve/chat/task.h"

namespace hone::serve {

ChatTask read_chat(const Json& body, const ServedModel& served);
// The complete response to one request.
Json chat_json(const ChatTask& task, const std::string& model, std::span<const Choice> generated, const Usage& usage,
               const text::Tokenizer& tokenizer);
asio::awaitable<void> chat_completions(Exchange& exchange, Context& context);

}  // namespace hone::serve
