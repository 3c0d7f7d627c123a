// Attention on the CPU, sequence by sequence: libtorch's kernel, or panel_attention.h on Arm and with AVX-512; gradients of short
// float32 sequences: short_attention.h.
#pragma once
#include "hone/ops/attention/attention.h"

namespace hone::ops::cpu {

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const CuSeqlens& segments, const AttentionShape& shape);

// One sequence whose last q.size(0) positions are queries, without gradient: q and out [queries, heads * head_dim], k and v
// [kv_heads, keys, head_dim].
void attention_with_prefix(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionShape& shape, const Tensor& out);

}  // namespace hone::ops::cpu
