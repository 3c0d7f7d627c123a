// The loss of a language model directly from hidden states: logits exist only for positions with a target, a few at a time.
#pragma once
#include "hone/ops/linear/multi_lora.h"

namespace hone::ops {

constexpr int64_t kIgnoredTarget = -100;

// Positions with a target, in order. If the caller knows their number, the host does not wait for an accelerator.
Tensor labelled_positions(const Tensor& targets_t, int64_t count = -1);

// Number of rows that a GPU computes for this many targets: few distinct sizes, so that batches of a shape launch the same
// kernels. All rows if almost all have a target, since selecting would cost more.
int64_t bound_of_targets(int64_t count, int64_t rows);

struct CrossEntropyOptions {
  Tensor weights_t;                   // float [T], undefined: every target weighs 1
  double label_smoothing = 0.0;       // loss = (1 - e) nll + e * mean over the vocabulary, as torch and transformers define it
  int64_t target_count = -1;          // how many targets are not ignored, if the caller knows: avoids a host synchronisation
  std::vector<LoraWeights> adapters;  // on the head
  LoraMapping adapter_rows;           // the rows of `hidden` that each of them is of; empty: all are of all
  bool training = false;              // dropout of the adapters
  size_t chunk_bytes = size_t{96} << 20;  // largest tensor of logits
  double scale = 1;                       // of the logits, in float32: the inverse of a temperature
};

struct CrossEntropy {
  Tensor sum;      // float32 scalar, differentiable
  Tensor correct;  // int64 scalar: targets that are the argmax
  Tensor count;    // int64 scalar: targets that are not ignored
};

// hidden [T, h], weight [V, h], bias [V] or undefined, targets int64 [T] with kIgnoredTarget for none.
CrossEntropy linear_cross_entropy_plain(const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Tensor& targets_t,
                                        const CrossEntropyOptions& options = {});

// Gradients are computed in the same pass over each chunk, so nothing as wide as the vocabulary is saved.
CrossEntropy linear_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Tensor& targets_t,
                                  const CrossEntropyOptions& options = {});

}  // namespace hone::ops
