// KL divergence between two models on the labeled tokens of a batch.
#pragma once
#include "hone/data/batches/batch.h"
#include "hone/model/causal_lm.h"

namespace hone::train {

// The sum over labeled tokens of KL(reference || model), differentiable in the model. Logits of both exist a few rows at a time,
// and once more in the backward pass. `reference` must live until then.
Tensor kl_from_reference(model::CausalLM& reference, model::CausalLM& model, const Tensor& hidden_th, const data::Batch& batch);

}  // namespace hone::train
