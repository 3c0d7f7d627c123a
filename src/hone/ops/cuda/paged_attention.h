// Paged attention on NVIDIA GPUs: hone's own kernels.
// Without nvcc at build time the plain composition runs.
#pragma once
#include "hone/ops/attention/fused_qkv_attention.h"

namespace hone::ops::cuda {

bool supports_paged(const Tensor& q, const AttentionShape& shape);  // with a cache of the compute dtype
bool supports_paged(const Tensor& q, const AttentionShape& shape, KvCacheDtype code, int64_t block_size);
void store_kv(const Tensor& k, const Tensor& v, KvCacheLayer& cache, const PagedAttentionMetadata& metadata);
// One kernel for norms, rotary embedding and storing: queries from a fused projection, keys and values into the cache, and
// optionally both as attention reads them from there, the values perhaps as columns of the projection.
struct RotatedHeads {
  Tensor q, k = {}, v = {};
};
RotatedHeads qk_norm_rope_store_kv(const Tensor& qkv, const QkNorm& norms, const RopeTable& rope, KvCacheLayer& cache,
                                   const PagedAttentionMetadata& metadata, const AttentionShape& shape, bool keeps_keys);
// One query for each of the first q.size(0) sequences. Reads lengths and tables on the device only: suitable for
// graph capture.
Tensor paged_decode(const Tensor& q, const KvCacheLayer& cache, const PagedAttentionMetadata& metadata,
                    const AttentionShape& shape);

}  // namespace hone::ops::cuda
