// Softmax cross-entropy over long rows, in place.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cpu {

void cross_entropy_rows(Tensor& logits, const Tensor& targets, const Tensor& weights, double smoothing, bool into_gradient,
                        Tensor& losses, Tensor& correct);

}  // namespace hone::ops::cpu
