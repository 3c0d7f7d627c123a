// A chat request from its body to its answers under way, whatever protocol it came by.
#pragma once
#include "hone/serve/chat/answers.h"
#include "hone/serve/chat/task.h"

namespace hone::serve {

struct RunningChat {
  ChatTask task;
  std::string model;  // as the answer calls it
  Answers answers;
};
using ReadChat = ChatTask (*)(const Json& body, const ServedModel& served);

// Reads and prepares aside, then hands the request to the engine. Throws Problem.
asio::awaitable<std::unique_ptr<RunningChat>> start_chat(Exchange& exchange, Context& context, ReadChat read);

}  // namespace hone::serve
