// Log-probabilities of targets directly from hidden states, with gradients: logits exist only for positions with a target, a few
// at a time, and again in the backward pass; few of them are kept instead. Several targets of a position share its logits.
#pragma once
#include "hone/ops/loss/vocabulary_shard.h"

namespace hone::ops {

struct TargetLogps {
  Tensor logps_t;        // float32, the shape of the targets, differentiable; zero where there is no target
  Tensor mean_logits_t;  // float32 [T], the mean over the vocabulary, without gradient, or zero; undefined for targets [T, K]
};

// Like linear_cross_entropy; of the options, weights and label smoothing are not used, and adapters on the head have no dropout.
// Targets are [T], or [T, K] with none ignored.
TargetLogps linear_logps_plain(const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Tensor& targets_t,
                               const CrossEntropyOptions& options = {});
// `shard`, if given, is the vocabulary shard of `weight` and `bias`; the gradient of `hidden` is then this rank's partial sum.
TargetLogps linear_logps(const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Tensor& targets_t,
                         const CrossEntropyOptions& options = {}, const VocabularyShard* shard = nullptr);

}  // namespace hone::ops
