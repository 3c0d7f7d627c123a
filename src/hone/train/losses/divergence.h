// How far a model has moved from another on the labelled tokens of a batch.
#pragma once
#include "hone/data/batch.h"
#include "hone/model/causal_lm.h"

namespace hone::train {

// The sum over labelled tokens of KL(reference || model), differentiable in the model. Logits of both exist a few rows at a time, and once
// more in the backward pass. `reference` must live until then.
Tensor divergence_from(model::CausalLM& reference, model::CausalLM& model, const Tensor& hidden_th, const data::Batch& batch);

}  // namespace hone::train
