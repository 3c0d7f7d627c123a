// Log-probabilities of several targets a row directly from hidden states, with gradients: the head is computed once a row,
// however many targets it has, and logits exist for a few rows at a time.
#pragma once
#include "hone/ops/loss/linear_cross_entropy.h"

namespace hone::ops {

// targets int64 [T, K], none of them ignored; float32 [T, K]. Of the options, weights, label smoothing and dropout are not used.
Tensor linear_logps_tk_plain(const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Tensor& targets_tk,
                             const CrossEntropyOptions& options = {});
Tensor linear_logps_tk(const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Tensor& targets_tk,
                       const CrossEntropyOptions& options = {});

}  // namespace hone::ops
