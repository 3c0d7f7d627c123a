// panel_gemm_kernels.h with AVX-512 and AVX2.
#if defined(__x86_64__)

#include "hone/ops/cpu/gemm/panel_gemm_kernels.h"
#include "hone/ops/cpu/gemm/x86/panel_squares.h"
#include "hone/ops/cpu/simd.h"

namespace hone::ops::cpu {
namespace {

// The lines of a panel. Missing ones are zeros.
template <class T>
struct Lines {
  const T* of[kSquare];
};
template <class T>
HONE_INLINE Lines<T> lines_from(const T* from, int64_t stride, int64_t count) {
  alignas(64) static const T kZeros[kPanelDepth] = {};
  Lines<T> lines;
  for (int64_t i = 0; i < kSquare; ++i) lines.of[i] = i < count ? from + i * stride : kZeros;
  return lines;
}

// The first `N` floats of a vector.
template <int64_t N>
struct FirstLanes {
  static constexpr int64_t count = N;
};

template <class Squares, int64_t P, class T>
HONE_INLINE void pack_panel(const T* from, const PanelSource& source, int64_t lines, float* to) {
  int64_t k = 0;
  if (source.depth_stride == 1) {
    const int64_t squares = source.depth / kSquare * kSquare;
#pragma GCC unroll 2
    for (int64_t p = 0; p < P; p += kSquare) {
      constexpr int64_t kWidth = P < kSquare ? P : kSquare;
      const auto some = lines_from(from + p * source.line_stride, source.line_stride, lines - p);
      for (k = 0; k < squares; k += kSquare)
        Squares::transpose(
            [&](int64_t i) __attribute__((always_inline)) { return load(some.of[i] + k, FullVector{}); },
            [&](int64_t step, F32x16 values)
                __attribute__((always_inline)) { store(to + (k + step) * P + p, values, FirstLanes<kWidth>{}); });
    }
  } else if (source.line_stride == 1 && lines == P) {
    for (; k < source.depth; ++k)
#pragma GCC unroll 2
      for (int64_t p = 0; p < P; p += kSquare) {
        constexpr int64_t kWidth = P < kSquare ? P : kSquare;
        store(to + k * P + p, load(from + k * source.depth_stride + p, FirstLanes<kWidth>{}), FirstLanes<kWidth>{});
      }
  }
  for (; k < source.depth; ++k)
    for (int64_t p = 0; p < P; ++p)
      to[k * P + p] = p < lines ? static_cast<float>(from[p * source.line_stride + k * source.depth_stride]) : 0.0f;
}

template <class Squares, int64_t P, class T>
HONE_INLINE void pack_panels(const T* from, const PanelSource& source, float* to) {
  for (int64_t line = 0; line < source.lines; line += P)
    pack_panel<Squares, P>(from + line * source.line_stride, source, source.lines - line < P ? source.lines - line : P,
                           to + line * source.depth);
}

// Sums of R rows and C vectors of columns, all in registers.
template <class Vector, int64_t R, int64_t C>
HONE_INLINE void multiply_tile(const float* x, const float* w, int64_t depth, float* sums, int64_t stride, bool increase) {
  constexpr int64_t kWidth = sizeof(Vector) / sizeof(float);
  Vector totals[R][C] = {};
  for (int64_t k = 0; k < depth; ++k, x += kPanelRows, w += kPanelColumns) {
    Vector columns[C];
#pragma GCC unroll 2
    for (int64_t c = 0; c < C; ++c) std::memcpy(&columns[c], w + c * kWidth, sizeof(Vector));
#pragma GCC unroll 12
    for (int64_t r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (int64_t c = 0; c < C; ++c) totals[r][c] += x[r] * columns[c];
  }
#pragma GCC unroll 12
  for (int64_t r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int64_t c = 0; c < C; ++c) {
      float* to = sums + r * stride + c * kWidth;
      Vector before{};
      if (increase) std::memcpy(&before, to, sizeof(Vector));
      before += totals[r][c];
      std::memcpy(to, &before, sizeof(Vector));
    }
}

__attribute__((target("arch=x86-64-v4"), noinline)) void multiply_panels_avx512(const float* x, const float* w, int64_t depth,
                                                                                float* sums, int64_t stride, bool increase) {
  multiply_tile<F32x16, kPanelRows, 2>(x, w, depth, sums, stride, increase);
}

// A quarter of the sums at a time: sixteen registers of eight.
__attribute__((target("arch=x86-64-v3"), noinline)) void multiply_panels_avx2(const float* x, const float* w, int64_t depth,
                                                                              float* sums, int64_t stride, bool increase) {
  for (int64_t r = 0; r < kPanelRows; r += 6)
    for (int64_t c = 0; c < kPanelColumns; c += 16)
      multiply_tile<F32x8, 6, 2>(x + r, w + c, depth, sums + r * stride + c, stride, increase);
}

// Only the first sixteen columns.
__attribute__((target("arch=x86-64-v4"), noinline)) void multiply_half_panels_avx512(const float* x, const float* w,
                                                                                     int64_t depth, float* sums, int64_t stride,
                                                                                     bool increase) {
  multiply_tile<F32x16, kPanelRows, 1>(x, w, depth, sums, stride, increase);
}

template <class Squares, class T>
HONE_INLINE void row_panels(const T* from, const PanelSource& source, float* to) {
  pack_panels<Squares, kPanelRows>(from, source, to);
}
template <class Squares, class T>
HONE_INLINE void column_panels(const T* from, const PanelSource& source, float* to) {
  pack_panels<Squares, kPanelColumns>(from, source, to);
}

}  // namespace

MultiplyPanels multiply_panels_here(int64_t columns) {
  if (!__builtin_cpu_supports("x86-64-v4")) return multiply_panels_avx2;
  return columns > kVectorWidth ? multiply_panels_avx512 : multiply_half_panels_avx512;
}

#define HONE_DEFINE(T)                                                                          \
  HONE_SQUARES_KERNEL(pack_row_panels, row_panels, const T*, const PanelSource&, float*)        \
  HONE_SQUARES_KERNEL(pack_column_panels, column_panels, const T*, const PanelSource&, float*)  \
  HONE_CPU_KERNEL void store_sums(const float* sums, const float* bias, T* to, int64_t count) { \
    for_each_vector(                                                                            \
        count, [&](int64_t i, auto extent) __attribute__((always_inline)) {                     \
          const F32x16 some = load(sums + i, extent);                                           \
          store(to + i, bias ? some + load(bias + i, extent) : some, extent);                   \
        });                                                                                     \
  }
HONE_PANEL_TYPES(HONE_DEFINE)
#undef HONE_DEFINE

}  // namespace hone::ops::cpu

#endif
