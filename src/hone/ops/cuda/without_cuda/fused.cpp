#include "hone/ops/cuda/fused.h"

#include "hone/base/error.h"

namespace hone::ops::cuda {

bool supports_fused(const Tensor&) { return false; }
Tensor rope(const Tensor&, const Tensor&, const Tensor&) { HONE_CHECK(false, "built without CUDA kernels"); }
Tensor swiglu(const Tensor&, const Tensor&) { HONE_CHECK(false, "built without CUDA kernels"); }

}  // namespace hone::ops::cuda
