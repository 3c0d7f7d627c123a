#include "hone/ops/cuda/sample_tokens.h"

#include "hone/base/error.h"

namespace hone::ops::cuda {

bool supports_sampling(const Tensor&) { return false; }
Tensor sample_tokens(const Tensor&, const SamplingTensors&) { HONE_CHECK(false, "built without CUDA kernels"); }

}  // namespace hone::ops::cuda
