// 8-bit and 4-bit weights, quantized when a model is prepared for inference.
#pragma once
#include "hone/model/causal_lm.h"

namespace hone::model {

// On the CPU: linear layers use weights of this many bits from now on, and the originals are freed. Throws UserError(usage)
// elsewhere, and for layers with a DoRA adapter.
void apply_quantization(CausalLM& model, int bits);

// On a GPU with float8 products, after fuse_projections: block products with more than two rows use float8 copies of the weights,
// which are kept in addition. Throws UserError elsewhere.
void apply_float8(CausalLM& model);

}  // namespace hone::model
