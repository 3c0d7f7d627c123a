// Weights of 8 or 4 bits, rounded when a model is made ready for inference.
#pragma once
#include "hone/model/causal_lm.h"

namespace hone::model {

// On the CPU: linear layers compute with weights of so many bits from now on, and the originals are let go. Throws UserError
// elsewhere.
void apply_quantization(CausalLM& model, int bits);

}  // namespace hone::model
