// KL divergence between two models on the labeled tokens of a batch.
#pragma once
#include "hone/train/methods/forward_pass.h"

namespace hone::train {

// The sum over labeled tokens of KL(reference || model), differentiable in the model, from the hidden states of both. Logits
// exist a few rows at a time, and once more in the backward pass. `reference` must live until then.
Tensor kl_from_reference(model::CausalLM& reference, const Tensor& reference_hidden_th, const ForwardOutputs& outputs);

}  // namespace hone::train
