// Log-probability of each token of a batch.
#pragma once
#include "hone/model/causal_lm.h"

namespace hone::train {

struct TokenScores {
  Tensor logps_t;  // log p(target), float32 [T], zero where there is no target
  Tensor hits_t;   // bool [T]: the target is the most likely token
};
// Without gradient; logits exist a few rows at a time.
TokenScores token_scores(model::CausalLM& model, const Tensor& hidden_th, const Tensor& targets_t);
// Entropy among the 20 most likely tokens, float32 [T], zero without a target. Computed in the same way.
Tensor top_entropies(model::CausalLM& model, const Tensor& hidden_th, const Tensor& targets_t);
// Entropy of all tokens, of logits times `scale`.
Tensor token_entropies(model::CausalLM& model, const Tensor& hidden_th, const Tensor& targets_t, double scale);

// Logits of some tokens at every position, float32 [T, K] for ids [T, K], or of all tokens if `ids_tk` is undefined.
// Differentiable if needed; logits of other tokens exist a few rows at a time.
Tensor token_logits(model::CausalLM& model, const Tensor& hidden_th, const Tensor& ids_tk);

}  // namespace hone::train
