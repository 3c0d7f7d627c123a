// A vocabulary sharded over ranks: each has the logits of its own tokens, and statistics are reduced.
#pragma once
#include "hone/ops/loss/linear_cross_entropy.h"

namespace hone::ops {

class VocabularyShard {
 public:
  VocabularyShard(int64_t begin, int64_t words, int64_t largest) : begin(begin), words(words), largest(largest) {}
  virtual ~VocabularyShard() = default;
  virtual void all_reduce_max(Tensor& values) const = 0;  // in place, over the ranks
  virtual void all_reduce_sum(Tensor& values) const = 0;

  const int64_t begin;    // the first word here
  const int64_t words;    // of the whole vocabulary
  const int64_t largest;  // how many the rank with most of them has: all take the rows of a batch in the same portions
};

// Like linear_cross_entropy, where `weight` and `bias` are the local shard. The gradient of `hidden` is this rank's partial
// sum.
CrossEntropy linear_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Tensor& targets_t,
                                  const CrossEntropyOptions& options, const VocabularyShard& shard);

}  // namespace hone::ops
