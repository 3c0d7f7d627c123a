#include "hone/ops/cuda/choose_tokens.h"

#include "hone/base/error.h"

namespace hone::ops::cuda {

bool draws_tokens(const Tensor&) { return false; }
Tensor choose_tokens(const Tensor&, const DrawSettings&) { HONE_CHECK(false, "built without CUDA kernels"); }

}  // namespace hone::ops::cuda
