// Cross-entropy of rows of logits against one target each; the logits may become their own gradient.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops {

class VocabularyShard;

struct RowLosses {
  Tensor sum, correct;  // float32 and int64 scalars
};

// With `into_gradient` the logits [rows, V] are overwritten by the gradient of the sum. `weights` (float [rows]) may be
// undefined.
RowLosses cross_entropy_rows(Tensor& logits, const Tensor& targets, const Tensor& weights, double smoothing, bool into_gradient);

// The same of logits [rows, words here]: three numbers of each row are reduced over the ranks that have the other words.
RowLosses cross_entropy_rows(Tensor& logits, const Tensor& targets, const Tensor& weights, double smoothing, bool into_gradient,
                             const VocabularyShard& shard);

}  // namespace hone::ops
