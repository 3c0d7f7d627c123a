// Dispatches from a tensor's dtype to a typed call of a CPU kernel.
#pragma once
#include "hone/base/error.h"
#include "hone/device/tensor.h"

namespace hone::ops::cpu {

inline bool supports(const Tensor& x) {
  auto dtype = x.scalar_type();
  return x.is_cpu() && (dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf);
}

// Calls body(T{}) with the C++ type of `dtype`.
template <class Body>
void with_type(at::ScalarType dtype, Body body) {
  switch (dtype) {
    case at::kFloat:
      return body(float{});
    case at::kBFloat16:
      return body(c10::BFloat16{});
    case at::kHalf:
      return body(c10::Half{});
    default:
      fail_check("a floating type of the CPU kernels", __FILE__, __LINE__, c10::toString(dtype));
  }
}

// Rows per parallel task, by size alone, so that results do not depend on the number of threads.
inline int64_t row_grain(int64_t width) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(width, 1)); }

}  // namespace hone::ops::cpu
