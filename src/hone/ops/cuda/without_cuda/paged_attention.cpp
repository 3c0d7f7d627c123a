#include "hone/ops/cuda/paged_attention.h"

#include "hone/base/error.h"

namespace hone::ops::cuda {

bool serves_paged(const Tensor&, const AttentionShape&) { return false; }
void store_kv(const Tensor&, const Tensor&, KvCacheLayer&, const PagedAttentionMetadata&) {
  HONE_CHECK(false, "built without CUDA kernels");
}
TurnedHeads qk_norm_rope_store_kv(const Tensor&, const QkNorm&, const RopeTable&, KvCacheLayer&, const PagedAttentionMetadata&,
                                  const AttentionShape&, bool) {
  HONE_CHECK(false, "built without CUDA kernels");
}
Tensor paged_decode(const Tensor&, const KvCacheLayer&, const PagedAttentionMetadata&, const AttentionShape&) {
  HONE_CHECK(false, "built without CUDA kernels");
}

}  // namespace hone::ops::cuda
