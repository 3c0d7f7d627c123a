// Attention on the CPU: libtorch's blocked kernel per sequence, and a kernel of our own for single tokens over a cache.
#pragma once
#include "hone/ops/attention.h"

namespace hone::ops::cpu {

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Segments& segments, const AttentionShape& shape);
Tensor attention_cached(const Tensor& q, const CachedKeys& cache, const Segments& segments, const AttentionShape& shape);

// One query per sequence: q and out [sequences, heads * head_dim]; the cache as in CachedKeys.
void decode_attention(const Tensor& q, const CachedKeys& cache, const AttentionShape& shape, Tensor& out);

}  // namespace hone::ops::cpu
