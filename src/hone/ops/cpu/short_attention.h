// Gradients of attention over short sequences, float32: one of a few tokens takes less time than the operators of a general
// kernel, and a batch has many.
#pragma once
#include <utility>
#include <vector>

#include "hone/ops/attention/attention.h"
#include "hone/ops/cpu/attention_gradients.h"

namespace hone::ops::cpu {

constexpr int64_t kShortSequence = 64;  // tokens, at most

// Writes the rows of `sequences`, each (first row, length). Those of a sequence do not depend on the others.
void short_attention_backward(const std::vector<std::pair<int64_t, int64_t>>& sequences, const AttentionShape& shape,
                              const AttentionGradients& tensors);

}  // namespace hone::ops::cpu
