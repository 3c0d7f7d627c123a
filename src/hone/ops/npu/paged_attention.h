// One new token per sequence over a paged cache, by the NPU's inference attention.
#pragma once
#include "hone/ops/attention/paged_attention.h"

namespace hone::ops::npu {

// The kernel supports 16-bit dtypes and block sizes that are multiples of 16, and no sliding window.
bool supports_paged(const Tensor& q, const KvCacheLayer& cache, const AttentionShape& shape);

// q [decodes, heads * head_dim] of the first sequences, whose keys are already stored.
Tensor paged_decode(const Tensor& q, const KvCacheLayer& cache, const PagedAttentionMetadata& metadata,
                    const AttentionShape& shape);

}  // namespace hone::ops::npu
