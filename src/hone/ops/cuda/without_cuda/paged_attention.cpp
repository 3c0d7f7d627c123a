#include "hone/ops/cuda/paged_attention.h"

#include "hone/base/error.h"

namespace hone::ops::cuda {

bool serves_paged(const Tensor&, const AttentionShape&) { return false; }
void store_keys(const Tensor&, const Tensor&, PagedKeys&, const PagedPlan&) { HONE_CHECK(false, "built without CUDA kernels"); }
Tensor turn_and_store(const Tensor&, const HeadNorms&, const RopeTable&, PagedKeys&, const PagedPlan&, const AttentionShape&) {
  HONE_CHECK(false, "built without CUDA kernels");
}
Tensor paged_decode(const Tensor&, const PagedKeys&, const PagedPlan&, const AttentionShape&) { HONE_CHECK(false, "built without CUDA kernels"); }

}  // namespace hone::ops::cuda
