// Routes of a server that generates for a trainer.
#pragma once
#include "hone/serve/context.h"

namespace hone::serve {

// POST /generate/: completions of token ids as token ids, each with its log-probability at the sampling temperature and the
// version of the weights that chose it.
asio::awaitable<void> generate_rollout(Exchange& exchange, Context& context);
// POST /update_weights/?version=3&part=0&parts=2: safetensors. Problem(403) where the server's weights are fixed.
asio::awaitable<void> update_weights(Exchange& exchange, Context& context);
// GET /get_engine_type/ and /get_world_size/: what trainers ask before they begin.
asio::awaitable<void> engine_type(Exchange& exchange, Context& context);
asio::awaitable<void> world_size(Exchange& exchange, Context& context);
// POST /reset_prefix_cache/
asio::awaitable<void> reset_prefix_cache(Exchange& exchange, Context& context);

}  // namespace hone::serve
