#include "hone/ops/cuda/training.h"

#include "hone/base/error.h"

namespace hone::ops::cuda {

bool serves_rows(const Tensor&) { return false; }
bool serves_rope(const Tensor&, const Tensor&) { return false; }
void rope_rows(const Tensor&, const Tensor&, const Tensor&, double, const Tensor&) {
  HONE_CHECK(false, "built without CUDA kernels");
}
bool serves_gate_updates(const Tensor&, const Tensor&, int64_t) { return false; }
Tensor swiglu_with_updates(const Tensor&, const Tensor&, const GateUpdates&) { HONE_CHECK(false, "built without CUDA kernels"); }
bool serves_swiglu_update(const Tensor&, int64_t) { return false; }
void swiglu_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                     const LowRankUpdate&, const GateUpdates&) {
  HONE_CHECK(false, "built without CUDA kernels");
}
Dropped drop(const Tensor&, double) { HONE_CHECK(false, "built without CUDA kernels"); }
Tensor drop_again(const Tensor&, double, const Tensor&) { HONE_CHECK(false, "built without CUDA kernels"); }
void add_dropped_(const Tensor&, const Tensor&, double, const Tensor&) { HONE_CHECK(false, "built without CUDA kernels"); }
Tensor rounded_end_to_end(const TensorList&, const std::vector<double>&, at::ScalarType) {
  HONE_CHECK(false, "built without CUDA kernels");
}
bool serves_low_rank_add(const Tensor&, int64_t) { return false; }
void low_rank_add_(const Tensor&, const Tensor&, const Tensor&, bool) { HONE_CHECK(false, "built without CUDA kernels"); }
bool serves_dropped_add(const Tensor&, int64_t, int64_t) { return false; }
void add_dropped_updates_(const Tensor&, const Tensor&, const Tensor&, double, const TensorList&) {
  HONE_CHECK(false, "built without CUDA kernels");
}
bool serves_cross_entropy(const Tensor&, int64_t) { return false; }
void cross_entropy_rows(const Tensor&, const Tensor&, const Tensor&, double, bool, const Tensor&, const Tensor&) {
  HONE_CHECK(false, "built without CUDA kernels");
}

}  // namespace hone::ops::cuda
