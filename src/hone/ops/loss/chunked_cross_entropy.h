// Cross-entropy of labelled rows with the logits of one chunk of rows at a time, and the gradients in the same pass.
#pragma once
#include <algorithm>

#include "hone/ops/loss/head_logits.h"
#include "hone/ops/loss/vocabulary_shard.h"

namespace hone::ops {

// An output head, with its parameters in the order of the autograd node's inputs.
struct OutputHead {
  Tensor weight, bias;
  std::vector<LoraWeights> adapters;
  bool training;
  const VocabularyShard* shard;  // null: the full vocabulary is local

  int64_t words_at_once() const { return shard ? shard->largest : weight.size(0); }
  TensorList parameters() const { return head_parameters(weight, bias, adapters); }
  bool frozen() const {
    return std::ranges::none_of(parameters(), [](const Tensor& parameter) { return parameter.requires_grad(); });
  }
  bool plain() const { return adapters.empty(); }
};

// The rows of a batch that have a target, and their per-row loss settings.
struct LabelledRows {
  Tensor index;  // undefined: all rows
  Tensor hidden, targets, weights;
};

// All results of the forward pass: the loss, and the gradients for an incoming gradient of 1.
struct LossAndGrads {
  Tensor sum, correct, dhidden;
  TensorList dparameters;
};

LossAndGrads chunked_loss_and_grads(const OutputHead& head, const LabelledRows& rows, const CrossEntropyOptions& options,
                                    bool with_gradient);

}  // namespace hone::ops
