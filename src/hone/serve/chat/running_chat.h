// A chat request from its body to its running choices, for every protocol.
#pragma once
#include "hone/serve/chat/choices.h"
#include "hone/serve/chat/task.h"

namespace hone::serve {

struct RunningChat {
  ChatTask task;
  std::string model;  // as the answer calls it
  ChoiceStream answers;
};
using ReadChat = ChatTask (*)(const Json& body, const ServedModel& served);

// Reads and prepares aside, then hands the request to the engine. Throws Problem.
asio::awaitable<std::unique_ptr<RunningChat>> start_chat(Exchange& exchange, Context& context, ReadChat read);

}  // namespace hone::serve
