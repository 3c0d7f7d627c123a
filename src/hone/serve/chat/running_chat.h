// A chat request from its body to its running choices, for all protocols.
#pragma once
#include "hone/serve/chat/choices.h"
#include "hone/serve/chat/task.h"

namespace hone::serve {

struct RunningChat {
  ChatTask task;
  std::string model;  // as the response names it
  ChoiceStream choices;
};
using ReadChat = ChatTask (*)(const Json& body, const ServedModel& served);

// Parses and prepares on a worker thread, then submits the request to the engine. Throws ApiError.
asio::awaitable<std::unique_ptr<RunningChat>> start_chat(Exchange& exchange, Context& context, ReadChat read);

}  // namespace hone::serve
