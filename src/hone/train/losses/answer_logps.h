// How likely a model finds the answers of a batch, with gradients; what preferences and policy gradients are made of.
#pragma once
#include "hone/data/batch.h"
#include "hone/model/causal_lm.h"
#include "hone/ops/linear_logps.h"

namespace hone::train {

// log p(target) of every position, from hidden states of the whole batch.
ops::TargetLogps answer_logps(const model::CausalLM& model, const Tensor& hidden_th, const data::Batch& batch);

// Which sequence each token belongs to, int64 [T].
Tensor segment_numbers(const ops::Segments& segments, at::Device device);
// Values of tokens [T] summed over each of `count` sequences, [S].
Tensor sums_by_segment(const Tensor& values_t, const Tensor& numbers_t, int64_t count);

}  // namespace hone::train
