// The kernels of a linear layer of few rows for a type of weights, chosen by what the processor has.
#pragma once
#include "hone/ops/cpu/gemm/skinny_gemm_kernels.h"

namespace hone::ops::cpu {

template <class T>
struct RowKernels {
  int64_t (*row_size)(int64_t width);  // floats of a packed row
  void (*pack)(const T* x, float* packed, int64_t rows, int64_t width);
  void (*outputs)(const float* packed, const T* weight, float* y, const SkinnyShape& shape);
};

template <class T>
RowKernels<T> row_kernels();

// On x86_64 only.
namespace avx2 {
template <class T>
RowKernels<T> row_kernels();
}
namespace avx512 {
template <class T>
RowKernels<T> row_kernels();
}

}  // namespace hone::ops::cpu
