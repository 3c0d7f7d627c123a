// From values of tokens to values of sequences, for preference and policy losses.
#pragma once
#include "hone/device/tensor.h"
#include "hone/ops/attention/cu_seqlens.h"
#include "hone/train/methods/loss.h"

namespace hone::train {

// Which sequence each token belongs to, int64 [T].
Tensor sequence_ids(const ops::CuSeqlens& segments, at::Device device);
// Values of tokens [T] summed over each of `count` sequences, [S].
Tensor sum_by_sequence(const Tensor& values_t, const Tensor& numbers_t, int64_t count);
// Ranks that share sequences compute the same loss: the first reports its value, the others keep the gradient of their positions.
void count_once(LossSum& result, const parallel::SequenceParallel* sequence);

}  // namespace hone::train
