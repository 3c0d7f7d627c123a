// Functions that libtorch gained after 2.7, for NPU servers with torch_npu 2.7.1: the function itself where this libtorch has it,
// else the same by older ones.
#pragma once
#include "hone/device/tensor.h"
#include "hone/device/torch_release.h"

namespace hone::ops {

// A product of 16-bit matrices, summed and returned in float32.
inline Tensor mm_in_float32(const Tensor& a, const Tensor& b) {
#if HONE_TORCH_2_11
  return at::mm(a, b, at::kFloat);
#else
  return at::mm(a.to(at::kFloat), b.to(at::kFloat));
#endif
}

// Adds such a product to `sum`, which is float32.
inline void add_mm_in_float32_(Tensor& sum, const Tensor& a, const Tensor& b) {
#if HONE_TORCH_2_11
  at::addmm_out(sum, sum, a, b, at::kFloat);
#else
  sum.addmm_(a.to(at::kFloat), b.to(at::kFloat));
#endif
}

// Products of groups of rows with a matrix each, in one launch.
constexpr bool kHasGroupedMm = HONE_TORCH_2_11;
inline Tensor grouped_mm(const Tensor& rows, const Tensor& matrices, const Tensor& ends) {
#if HONE_TORCH_2_11
  return at::_grouped_mm(rows, matrices, ends);
#else
  TORCH_CHECK(false, "this libtorch has no grouped product: ", rows.sizes(), matrices.sizes(), ends.sizes());
#endif
}

}  // namespace hone::ops
