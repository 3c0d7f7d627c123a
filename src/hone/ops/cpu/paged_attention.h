// Attention over a paged cache on the CPU: attention.h for prompts, a separate kernel for single tokens.
#pragma once
#include "hone/ops/attention/paged_attention.h"

namespace hone::ops::cpu {

Tensor paged_attention(const Tensor& q, const Tensor& k, const Tensor& v, KvCacheLayer& cache,
                       const PagedAttentionMetadata& metadata, const AttentionShape& shape);

// The leading `metadata.num_decodes` sequences, one query each: q and out [decodes, heads * head_dim].
void paged_decode(const Tensor& q, const KvCacheLayer& cache, const PagedAttentionMetadata& metadata, const AttentionShape& shape,
                  Tensor& out);

}  // namespace hone::ops::cpu
