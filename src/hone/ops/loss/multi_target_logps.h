// linear_logps() for several targets of a position: the head is computed once a row, and the gradient of its logits is the
// softmax times the sum of the row's gradients. One target uses linear_logps()'s own path, whose backward is the fused
// cross-entropy.
#pragma once
#include "hone/ops/loss/linear_cross_entropy.h"

namespace hone::ops {

// Targets int64 [T, K], none of them ignored; float32 [T, K].
Tensor multi_target_logps(const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Tensor& targets_tk,
                          const CrossEntropyOptions& options);

}  // namespace hone::ops
