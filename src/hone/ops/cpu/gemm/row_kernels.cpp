#include "hone/ops/cpu/gemm/row_kernels.h"

namespace hone::ops::cpu {

template <class T>
RowKernels<T> row_kernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("x86-64-v4")) return avx512::row_kernels<T>();
  if (__builtin_cpu_supports("x86-64-v3")) return avx2::row_kernels<T>();
#endif
  return {packed_row, pack_rows, small_outputs};
}

template RowKernels<float> row_kernels();
template RowKernels<c10::BFloat16> row_kernels();
template RowKernels<c10::Half> row_kernels();

}  // namespace hone::ops::cpu
