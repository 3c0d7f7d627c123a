// Log-probabilities of the completions of a batch, with gradients, for preference and policy losses.
#pragma once
#include "hone/data/batches/batch.h"
#include "hone/model/causal_lm.h"
#include "hone/ops/loss/linear_logps.h"

namespace hone::train {

// log p(target) of every position, from hidden states of the whole batch.
ops::TargetLogps completion_logps(const model::CausalLM& model, const Tensor& hidden_th, const data::Batch& batch);

// Which sequence each token belongs to, int64 [T].
Tensor sequence_ids(const ops::CuSeqlens& segments, at::Device device);
// Values of tokens [T] summed over each of `count` sequences, [S].
Tensor sum_by_sequence(const Tensor& values_t, const Tensor& numbers_t, int64_t count);

}  // namespace hone::train
