// Merges the softmax of several parts of the positions, one after the other: each part has its maximum score, its sum of exp2
// relative to it, and its weighted sum of values.
#pragma once

namespace hone::ops::cuda {

struct SoftmaxParts {
  float peak = -INFINITY, total = 0, value = 0;

  __device__ void add(float other_peak, float other_total, float other_value) {
    if (other_peak == -INFINITY) return;  // it had no position
    const float highest = fmaxf(peak, other_peak), shrink = exp2f(peak - highest), weight = exp2f(other_peak - highest);
    total = total * shrink + other_total * weight;
    value = value * shrink + other_value * weight;
    peak = highest;
  }
  __device__ float result() const { return total > 0 ? value / total : 0.0f; }
};

}  // namespace hone::ops::cuda
