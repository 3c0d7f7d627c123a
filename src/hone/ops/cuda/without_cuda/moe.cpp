#include "hone/ops/cuda/moe.h"

#include "hone/base/error.h"

namespace hone::ops::cuda {

bool serves_combine(const Tensor&, int64_t) { return false; }
Tensor combine_rows(const Tensor&, const Tensor&, const Tensor&, int64_t) { HONE_CHECK(false, "built without CUDA kernels"); }
CombineGradients combine_rows_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool) {
  HONE_CHECK(false, "built without CUDA kernels");
}

}  // namespace hone::ops::cuda
