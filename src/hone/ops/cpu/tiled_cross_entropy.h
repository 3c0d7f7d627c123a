// The loss of a frozen head in one pass over cache-sized tiles of the vocabulary: logits are never written to memory.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cpu {

// For cases where passes over the logits cost more than computing them: float32 heads of narrow models.
bool supports_tiled(const Tensor& hidden, const Tensor& weight, const Tensor& bias);

struct TiledLosses {
  Tensor losses, correct;  // float [T], int64 [T]
  Tensor dhidden;          // [T, h], undefined without gradient
};

// hidden [T, h], weight [V, h], targets int64 [T] all inside the vocabulary, weights float [T] or undefined.
TiledLosses tiled_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& targets, const Tensor& weights,
                                double smoothing, bool with_gradient);

}  // namespace hone::ops::cpu
