// How large the cache is and how much a step computes, where the config leaves it to the device.
#pragma once
#include "hone/engine/engine.h"

namespace hone::engine {

// The config with every 0 replaced. Throws UserError(out_of_memory) when the weights leave no room for a single sequence.
EngineConfig completed(EngineConfig config, const model::CausalLM& model);

}  // namespace hone::engine
