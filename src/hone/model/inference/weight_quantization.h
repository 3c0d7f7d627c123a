// Weights of 8 or 4 bits, rounded when a model is made ready for inference.
#pragma once
#include "hone/model/causal_lm.h"

namespace hone::model {

// On the CPU: linear layers compute with weights of so many bits from now on, and the originals are let go. Throws UserError
// elsewhere.
void apply_quantization(CausalLM& model, int bits);

// On a GPU that multiplies 8-bit floats, behind fuse_projections: products of blocks' layers and more than two rows are of
// weights rounded so, which are kept beside the others. Throws UserError elsewhere.
void apply_float8(CausalLM& model);

}  // namespace hone::model
