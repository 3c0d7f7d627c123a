// float8 training.
#pragma once
#include "hone/model/causal_lm.h"

namespace hone::tuner {

// The layers of all blocks except the first use float8 products if their sizes are multiples of 16.
void apply_float8(model::CausalLM& model);

}  // namespace hone::tuner
