// The softmax of a head's logits, tile by tile, and the head's rows weighted by it: the two products of tiled_cross_entropy.h.
#pragma once
#include <cmath>
#include <vector>

#include "hone/device/tensor.h"

namespace hone::ops::cpu {

// Online softmax of one row, relative to the largest logit so far.
struct RowState {
  float peak = -INFINITY, total = 0;
  float chosen = 0;           // the target's logit, 0 while it has not been seen
  float all = 0;              // the sum of the logits, if requested
  bool target_leads = false;  // the target is the first of the largest logits

  // The factor for earlier sums after a tile whose largest logit is `largest`. `leads`: the first such logit is the target's.
  float raise_peak(float largest, bool leads) {
    if (!(largest > peak)) return 1;
    const float rescale = std::exp(peak - largest);
    peak = largest;
    target_leads = leads;
    return rescale;
  }
};

struct IndexRange {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// A block of rows times a slice of the vocabulary: exponentials are relative to each row's largest logit in the slice.
struct PartialSoftmax {
  std::vector<RowState> states;
  Tensor sums;  // [rows, h]: head rows weighted by the exponentials; undefined without gradient
};

struct SoftmaxInputs {
  Tensor hidden, weight;   // float32 [T, h] and [V, h], contiguous
  const int64_t* targets;  // [T], inside the vocabulary
  bool with_sum, with_gradient;

  // The place of a row's target in a tile of the vocabulary, or -1.
  int64_t target_in(IndexRange words, int64_t row) const {
    return targets[row] >= words.begin && targets[row] < words.end ? targets[row] - words.begin : -1;
  }
};

int64_t tile_words(int64_t width);  // how many words a tile has; slices of the vocabulary begin at a multiple of it
int64_t block_rows();               // how many rows use a cached tile

// Tiles by two calls of matmul.h each, or where has_panel_columns() by panels: a tile's logits are written, exponentiated and
// multiplied in the layout of a panel, which the first-level cache holds.
PartialSoftmax softmax_by_matmul(const SoftmaxInputs& inputs, IndexRange rows, IndexRange words);
PartialSoftmax softmax_by_panels(const SoftmaxInputs& inputs, IndexRange rows, IndexRange words);

}  // namespace hone::ops::cpu
