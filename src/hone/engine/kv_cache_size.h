// Derives unset sizes from the device's free memory: the size of the KV cache and the token budget of a step.
#pragma once
#include "hone/engine/engine.h"

namespace hone::engine {

// The config with every 0 replaced. Throws UserError(out_of_memory) when the weights leave no room for a single sequence.
EngineConfig resolve_engine_config(EngineConfig config, const model::CausalLM& model);

}  // namespace hone::engine
