// Derives unset sizes from the device's free memory: the size of the KV cache and the token budget of a step.
#pragma once
#include "hone/engine/engine.h"
#include "hone/model/config.h"

namespace hone::engine {

// The config with every 0 replaced. Throws UserError(out_of_memory) when the weights leave no room for a single sequence.
EngineConfig resolve_engine_config(EngineConfig config, model::CausalLM& model);

// The model's config with the key and value heads of this process: where other processes have the rest of each layer, a part.
model::DecoderConfig kv_cache_shape(model::CausalLM& model);

}  // namespace hone::engine
