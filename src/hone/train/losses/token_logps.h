// Log-probability of each token of a batch, and sums over sequences.
#pragma once
#include "hone/device/tensor.h"
#include "hone/model/causal_lm.h"
#include "hone/ops/attention/cu_seqlens.h"
#include "hone/train/methods/loss.h"

namespace hone::train {

// How many rows of logits fit into `bytes` of float32, at least one.
int64_t rows_at_once(const model::CausalLM& model, int64_t bytes);

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

// Which sequence each token belongs to, int64 [T].
Tensor sequence_ids(const ops::CuSeqlens& segments, at::Device device);
// Values of tokens [T] summed over each of `count` sequences, [S].
Tensor sum_by_sequence(const Tensor& values_t, const Tensor& numbers_t, int64_t count);
// Ranks that share sequences compute the same loss: the first reports its value, the others keep the gradient of their positions.
void count_once(LossSum& result, const parallel::SequenceParallel* sequence);

}  // namespace hone::train
