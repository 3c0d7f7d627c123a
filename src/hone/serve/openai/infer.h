// POST /infer/, ms-swift's batch of chats.
#pragma once
#include "hone/serve/context.h"

namespace hone::serve {

asio::awaitable<void> infer(Exchange& exchange, Context& context);

}  // namespace hone::serve
