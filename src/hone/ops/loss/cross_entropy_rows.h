// Cross-entropy of rows of logits with one target each; the logits may be replaced by their gradient.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops {

class VocabularyShard;

struct RowLosses {
  Tensor sum, correct;  // float32 and int64 scalars
};

// With `into_gradient` the logits [rows, V] are overwritten by the gradient of the sum. `weights` (float [rows]) may be
// undefined. On a GPU, rows whose target is kIgnoredTarget have no loss and no gradient.
RowLosses cross_entropy_rows(Tensor& logits, const Tensor& targets, const Tensor& weights, double smoothing, bool into_gradient);

// The same for a vocabulary shard [rows, local tokens]: three numbers per row are reduced over the ranks with the other tokens.
RowLosses cross_entropy_rows(Tensor& logits, const Tensor& targets, const Tensor& weights, double smoothing, bool into_gradient,
                             const VocabularyShard& shard);

}  // namespace hone::ops
