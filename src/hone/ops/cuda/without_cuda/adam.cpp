#include "hone/ops/cuda/adam.h"

#include "hone/base/error.h"

namespace hone::ops::cuda {

bool serves_adam(const Tensor&) { return false; }
void adam_(const TensorList&, const TensorList&, const TensorList&, const TensorList&, const TensorList&, const AdamScalars&,
           const AdamStep&) {
  HONE_CHECK(false, "built without CUDA kernels");
}

}  // namespace hone::ops::cuda
