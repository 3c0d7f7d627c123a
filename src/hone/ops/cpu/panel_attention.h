// Attention of many queries on Arm and with AVX-512, with the kernels of gemm/panel_gemm_kernels.h: scores stay in the L2 cache,
// masked keys are skipped, 16-bit numbers are widened while packing. The result of a query does not depend on the other queries.
#pragma once
#include <utility>
#include <vector>

#include "hone/ops/attention/attention.h"
#include "hone/ops/cpu/attention_gradients.h"

namespace hone::ops::cpu {

bool has_panel_attention(const Tensor& q);

// One sequence, whose last q.size(0) positions are the queries: q and out [queries, heads * head_dim], k and v [kv_heads, keys,
// head_dim]; the elements of a head are contiguous. `logsumexp`: float32 [heads, queries], contiguous, or undefined.
void panel_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionShape& shape, const Tensor& out,
                     const Tensor& logsumexp);

// The rows of many short `sequences`, each (first row, length), whose positions are all queries: q and out [rows, heads *
// head_dim], k and v [rows, kv_heads * head_dim]. `normalizers`: logsumexp, float32, heads times rows, sequence by sequence.
void panel_attention_within(const std::vector<std::pair<int64_t, int64_t>>& sequences, const AttentionShape& shape,
                            const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out, const Tensor& normalizers);

// Writes the gradients of `sequences`, each (first row, length), whose positions are all queries.
void panel_attention_backward(const std::vector<std::pair<int64_t, int64_t>>& sequences, const AttentionShape& shape,
                              const AttentionGradients& tensors);

}  // namespace hone::ops::cpu
