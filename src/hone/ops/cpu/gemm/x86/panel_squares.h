// Transposes squares of sixteen lines in registers, for panels on x86 (panel_gemm_kernels.h, panel_dots_kernels.h).
#pragma once
#include "hone/ops/cpu/simd.h"

namespace hone::ops::cpu {

constexpr int64_t kSquare = kVectorWidth;  // lines and steps that are transposed at a time

// The elements of two vectors that a permutation of 32 selects, the same in each of their four parts.
#define HONE_INTERLEAVE(a, b, i, j, k, l)                                                                                   \
  __builtin_shufflevector(a, b, i, j, k, l, 4 + i, 4 + j, 4 + k, 4 + l, 8 + i, 8 + j, 8 + k, 8 + l, 12 + i, 12 + j, 12 + k, \
                          12 + l)
// Two parts of four floats of each vector.
#define HONE_PARTS(a, b, i, j)                                                                                              \
  __builtin_shufflevector(a, b, 4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3, 4 * j, 4 * j + 1, 4 * j + 2, 4 * j + 3, 16 + 4 * i, \
                          17 + 4 * i, 18 + 4 * i, 19 + 4 * i, 16 + 4 * j, 17 + 4 * j, 18 + 4 * j, 19 + 4 * j)

// Sixteen steps of sixteen lines, so that the lines of a step are adjacent: line(i), then put(step, lines). Their bits stay.
template <class Line, class Put>
HONE_INLINE void transpose_square(Line line, Put put) {
  F32x16 a[kSquare], b[kSquare];
#pragma GCC unroll 16
  for (int64_t i = 0; i < kSquare; ++i) a[i] = line(i);
#pragma GCC unroll 8
  for (int64_t i = 0; i < kSquare; i += 2) {
    b[i] = HONE_INTERLEAVE(a[i], a[i + 1], 0, 16, 1, 17);
    b[i + 1] = HONE_INTERLEAVE(a[i], a[i + 1], 2, 18, 3, 19);
  }
#pragma GCC unroll 4
  for (int64_t i = 0; i < kSquare; i += 4) {
    a[i] = HONE_INTERLEAVE(b[i], b[i + 2], 0, 1, 16, 17);
    a[i + 1] = HONE_INTERLEAVE(b[i], b[i + 2], 2, 3, 18, 19);
    a[i + 2] = HONE_INTERLEAVE(b[i + 1], b[i + 3], 0, 1, 16, 17);
    a[i + 3] = HONE_INTERLEAVE(b[i + 1], b[i + 3], 2, 3, 18, 19);
  }
#pragma GCC unroll 4
  for (int64_t j = 0; j < 4; ++j) {
    const F32x16 even = HONE_PARTS(a[j], a[4 + j], 0, 2), odd = HONE_PARTS(a[j], a[4 + j], 1, 3),
                 even_below = HONE_PARTS(a[8 + j], a[12 + j], 0, 2), odd_below = HONE_PARTS(a[8 + j], a[12 + j], 1, 3);
    put(j, HONE_PARTS(even, even_below, 0, 2));
    put(4 + j, HONE_PARTS(odd, odd_below, 0, 2));
    put(8 + j, HONE_PARTS(even, even_below, 1, 3));
    put(12 + j, HONE_PARTS(odd, odd_below, 1, 3));
  }
}
#undef HONE_INTERLEAVE
#undef HONE_PARTS

}  // namespace hone::ops::cpu
