// A head with one float32 value per token, in addition to the LM head: LLaMA-Factory's reward models, and critics.
#pragma once
#include "hone/model/causal_lm.h"
#include "hone/model/decoder.h"

namespace hone::model {

// From the folder's value_head.safetensors; otherwise initialized as torch does for a linear layer.
void add_value_head(Decoder& decoder, const std::filesystem::path& folder, uint64_t seed);

// Values of hidden states [N, hidden], float32 [N], differentiable. In training, dropout of 0.1 on the states, as in trl.
Tensor values(CausalLM& model, const Tensor& states_nh);

}  // namespace hone::model
