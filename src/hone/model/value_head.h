// A head that gives every token one value, in float32 beside the one that gives tokens: LLaMA-Factory's reward models, and
// critics.
#pragma once
#include "hone/model/causal_lm.h"
#include "hone/model/decoder.h"

namespace hone::model {

// Out of the folder's value_head.safetensors; where it has none, again as torch starts a linear layer.
void add_value_head(Decoder& decoder, const std::filesystem::path& folder, uint64_t seed);

// Of hidden states [N, hidden], float32 [N], differentiable. In training a tenth of each state is dropped, as trl does.
Tensor values(CausalLM& model, const Tensor& states_nh);

}  // namespace hone::model
