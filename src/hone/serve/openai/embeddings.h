// POST /v1/embeddings: the model's hidden states, pooled to one normalized vector per text.
#pragma once
#include "hone/serve/context.h"

namespace hone::serve {

asio::awaitable<void> embeddings(Exchange& exchange, Context& context);
asio::awaitable<void> models(Exchange& exchange, Context& context);  // GET /v1/models and /v1/models/NAME

}  // namespace hone::serve
