// POST /infer/, ms-swift's list of chats answered together, and POST /v1/score/evaluation, LLaMA-Factory's, which needs a reward
// model.
#pragma once
#include "hone/serve/context.h"

namespace hone::serve {

asio::awaitable<void> infer(Exchange& exchange, Context& context);
asio::awaitable<void> score(Exchange& exchange, Context& context);

}  // namespace hone::serve
