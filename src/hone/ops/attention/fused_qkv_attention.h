// Attention from one fused projection of queries, keys and values: the inference form of norm, rotary embedding and
// paged_attention.h.
#pragma once
#include "hone/ops/attention/paged_attention.h"
#include "hone/ops/attention/qk_norm_rope.h"

namespace hone::ops {

// Whether fusing is faster on the device of `weight`: on a CPU, and where decode steps then use special kernels.
bool benefits_from_fused_qkv(const Tensor& weight, const AttentionShape& shape);

// qkv [T, (heads + 2 kv_heads) * head_dim].
Tensor fused_qkv_attention(const Tensor& qkv, const QkNorm& norms, const RopeTable& rope, KvCacheLayer& cache,
                           const PagedAttentionMetadata& metadata, const AttentionShape& shape);

}  // namespace hone::ops
