// Attention over short sequences and its gradients, computed in float32: one of a few tokens takes less time than the operators
// of a general kernel, and a batch has many.
#pragma once
#include <utility>
#include <vector>

#include "hone/ops/attention/attention.h"
#include "hone/ops/cpu/attention_gradients.h"

namespace hone::ops::cpu {

constexpr int64_t kShortSequence = 64;  // tokens, at most

// Write the rows of `sequences`, each (first row, length). Those of a sequence do not depend on the others. Tensors are of any
// one floating dtype, laid out as in attention_gradients.h.
void short_attention(const std::vector<std::pair<int64_t, int64_t>>& sequences, const AttentionShape& shape, const Tensor& q,
                     const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& logsumexp);
void short_attention_backward(const std::vector<std::pair<int64_t, int64_t>>& sequences, const AttentionShape& shape,
                              const AttentionGradients& tensors);

}  // namespace hone::ops::cpu
