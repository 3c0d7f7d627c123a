// Transposes squares of sixteen lines, for panels on x86 (panel_gemm_kernels.h, panel_dots_kernels.h): WideSquares in AVX-512's
// registers, NarrowSquares in those of AVX2.
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

// transpose(): sixteen steps of sixteen lines, so that the lines of a step are adjacent: line(i), then put(step, lines). Their
// bits stay.
struct WideSquares {
  template <class Line, class Put>
  static HONE_INLINE void transpose(Line line, Put put);
};
struct NarrowSquares {
  template <class Line, class Put>
  static HONE_INLINE void transpose(Line line, Put put);
};

template <class Line, class Put>
HONE_INLINE void WideSquares::transpose(Line line, Put put) {
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

using F32x8 = float __attribute__((vector_size(32)));
constexpr int64_t kHalfSquare = kSquare / 2;

// A quarter of a square.
HONE_INLINE void transpose_eight(const float* from, float* to) {
  F32x8 a[kHalfSquare], b[kHalfSquare];
#pragma GCC unroll 8
  for (int64_t i = 0; i < kHalfSquare; ++i) std::memcpy(&a[i], from + i * kSquare, sizeof a[i]);
#pragma GCC unroll 4
  for (int64_t i = 0; i < kHalfSquare; i += 2) {
    b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
#pragma GCC unroll 2
  for (int64_t i = 0; i < kHalfSquare; i += 4) {
    a[i] = __builtin_shufflevector(b[i], b[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    a[i + 1] = __builtin_shufflevector(b[i], b[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    a[i + 2] = __builtin_shufflevector(b[i + 1], b[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
    a[i + 3] = __builtin_shufflevector(b[i + 1], b[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
  }
#pragma GCC unroll 4
  for (int64_t j = 0; j < 4; ++j) {
    const F32x8 low = __builtin_shufflevector(a[j], a[4 + j], 0, 1, 2, 3, 8, 9, 10, 11),
                high = __builtin_shufflevector(a[j], a[4 + j], 4, 5, 6, 7, 12, 13, 14, 15);
    std::memcpy(to + j * kSquare, &low, sizeof low);
    std::memcpy(to + (4 + j) * kSquare, &high, sizeof high);
  }
}

template <class Line, class Put>
HONE_INLINE void NarrowSquares::transpose(Line line, Put put) {
  alignas(64) float lines[kSquare * kSquare], steps[kSquare * kSquare];
  for (int64_t i = 0; i < kSquare; ++i) store(lines + i * kSquare, line(i), FullVector{});
  for (int64_t first = 0; first < kSquare; first += kHalfSquare)
    for (int64_t step = 0; step < kSquare; step += kHalfSquare)
      transpose_eight(lines + first * kSquare + step, steps + step * kSquare + first);
  for (int64_t i = 0; i < kSquare; ++i) put(i, load(steps + i * kSquare, FullVector{}));
}

// Defines a function, of three parameters, that calls BODY<squares>() for the instruction set of this processor.
#define HONE_SQUARES_KERNEL(NAME, BODY, A, B, C)                                                                     \
  __attribute__((target("arch=x86-64-v4"))) static void NAME##_avx512(A a, B b, C c) { BODY<WideSquares>(a, b, c); } \
  __attribute__((target("arch=x86-64-v3"))) static void NAME##_avx2(A a, B b, C c) { BODY<NarrowSquares>(a, b, c); } \
  void NAME(A a, B b, C c) { __builtin_cpu_supports("x86-64-v4") ? NAME##_avx512(a, b, c) : NAME##_avx2(a, b, c); }

}  // namespace hone::ops::cpu
