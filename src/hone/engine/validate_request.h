// The limits of an engine that a request must keep to.
#pragma once
#include "hone/engine/engine.h"

namespace hone::engine {

// Limits max_tokens by the context and the cache. Throws UserError(bad_data) for a request that can never run. The config has its
// cache size (kv_cache_size.h).
void validate_and_clamp(Request& request, const EngineConfig& config, int64_t vocab_size);

}  // namespace hone::engine
