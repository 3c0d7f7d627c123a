// Routes of a rollout server.
#pragma once
#include "hone/serve/context.h"

namespace hone::serve {

// POST /generate/: token ids in, completions as token ids out, each with its log-probability at the sampling temperature and the
// version of the weights that sampled it.
asio::awaitable<void> generate_rollout(Exchange& exchange, Context& context);
// POST /update_weights/?version=3&part=0&parts=2: safetensors. ApiError(403) if the server's weights are fixed.
asio::awaitable<void> update_weights(Exchange& exchange, Context& context);
// GET /get_engine_type/ and /get_world_size/: queried by trainers before they start.
asio::awaitable<void> engine_type(Exchange& exchange, Context& context);
asio::awaitable<void> world_size(Exchange& exchange, Context& context);
// POST /reset_prefix_cache/
asio::awaitable<void> reset_prefix_cache(Exchange& exchange, Context& context);

}  // namespace hone::serve
