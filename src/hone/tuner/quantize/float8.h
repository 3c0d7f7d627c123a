// Training with products of 8-bit floats.
#pragma once
#include "hone/model/causal_lm.h"

namespace hone::tuner {

// The layers of all blocks but the very first one compute with 8-bit floats, where their sizes are multiples of 16.
void apply_float8(model::CausalLM& model);

}  // namespace hone::tuner
