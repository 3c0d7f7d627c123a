// How likely a model finds each token of a batch.
#pragma once
#include "hone/model/causal_lm.h"

namespace hone::train {

// log p(target) at each position, float32 [T], zero where there is no target. Without gradient; logits exist a few rows at a
// time.
Tensor token_logps(model::CausalLM& model, const Tensor& hidden_th, const Tensor& targets_t);

}  // namespace hone::train
