// Log-probabilities of targets straight from hidden states, with gradients: logits exist only for positions with a target, a few
// at a time, and once more in the backward pass.
#pragma once
#include "hone/ops/loss/vocabulary_shard.h"

namespace hone::ops {

struct TargetLogps {
  Tensor logps_t;        // float32 [T], differentiable; zero where there is no target
  Tensor mean_logits_t;  // float32 [T], the mean over the vocabulary, without gradient; zero where there is no target
};

// As linear_cross_entropy; of the options, weights and label smoothing say nothing here, and adapters on the head drop nothing
// out.
TargetLogps linear_logps_plain(const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Tensor& targets_t,
                               const CrossEntropyOptions& options = {});
// `shard`, where given, says which words `weight` and `bias` are of; the gradient of `hidden` is this rank's part of a sum then.
TargetLogps linear_logps(const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Tensor& targets_t,
                         const CrossEntropyOptions& options = {}, const VocabularyShard* shard = nullptr);

}  // namespace hone::ops
