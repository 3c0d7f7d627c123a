#include "hone/ops/cuda/fused.h"

#include "hone/base/error.h"

namespace hone::ops::cuda {

bool serves_fused(const Tensor&) { return false; }
Tensor rope(const Tensor&, const Tensor&, const Tensor&) { HONE_CHECK(false, "built without CUDA kernels"); }
Tensor swiglu(const Tensor&, const Tensor&) { HONE_CHECK(false, "built without CUDA kernels"); }
bool serves_thin(const Tensor&, const Tensor&) { return false; }
Tensor thin_matmul(const Tensor&, const Tensor&, const Tensor&) { HONE_CHECK(false, "built without CUDA kernels"); }

}  // namespace hone::ops::cuda
