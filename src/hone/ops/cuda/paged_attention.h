// Paged attention on NVIDIA GPUs: our own kernels. Without nvcc at build time nothing is served here and the plain composition
// runs.
#pragma once
#include "hone/ops/attention/fused_qkv_attention.h"

namespace hone::ops::cuda {

bool serves_paged(const Tensor& q, const AttentionShape& shape);
void store_kv(const Tensor& k, const Tensor& v, KvCacheLayer& cache, const PagedAttentionMetadata& plan);
// One kernel for norms, rotation and storing: the queries out of a joined projection, keys and values into the cache, and the
// keys beside it where they are wanted.
struct TurnedHeads {
  Tensor q, k;
};
TurnedHeads qk_norm_rope_store_kv(const Tensor& qkv, const QkNorm& norms, const RopeTable& rope, KvCacheLayer& cache,
                                  const PagedAttentionMetadata& plan, const AttentionShape& shape, bool keeps_keys);
// One query of each of the first q.size(0) sequences of the plan. Reads lengths and tables on the device only: fit for graph
// capture.
Tensor paged_decode(const Tensor& q, const KvCacheLayer& cache, const PagedAttentionMetadata& plan, const AttentionShape& shape);

}  // namespace hone::ops::cuda
