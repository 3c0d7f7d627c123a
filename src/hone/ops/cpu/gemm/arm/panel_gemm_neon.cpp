// panel_gemm_kernels.h with NEON.
#if defined(__aarch64__)

#include <arm_neon.h>

#include "hone/device/cpu_features.h"
#include "hone/ops/cpu/gemm/panel_gemm_kernels.h"
#include "hone/ops/cpu/simd.h"

namespace hone::ops::cpu {
namespace {

HONE_INLINE float32x4_t load_four(const float* from) { return vld1q_f32(from); }
HONE_INLINE float32x4_t load_four(const c10::BFloat16* from) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(reinterpret_cast<const uint16_t*>(from)), 16));
}
HONE_INLINE float32x4_t load_four(const c10::Half* from) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const uint16_t*>(from))));
}

HONE_INLINE void store_four(float* to, float32x4_t value) { vst1q_f32(to, value); }
HONE_INLINE void store_four(c10::BFloat16* to, float32x4_t value) {
  vst1_u16(reinterpret_cast<uint16_t*>(to), narrow_four(value));
}
HONE_INLINE void store_four(c10::Half* to, float32x4_t value) {
  vst1_u16(reinterpret_cast<uint16_t*>(to), vreinterpret_u16_f16(vcvt_f16_f32(value)));
}

HONE_INLINE float32x4_t pairs_below(float32x4_t a, float32x4_t b) {
  return vreinterpretq_f32_f64(vtrn1q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
}
HONE_INLINE float32x4_t pairs_above(float32x4_t a, float32x4_t b) {
  return vreinterpretq_f32_f64(vtrn2q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
}

// Transposes four steps of four contiguous lines, so that lines are adjacent.
template <int64_t P, class T>
HONE_INLINE void transpose_four(const T* const (&lines)[4], int64_t at, float* to) {
  const float32x4_t a = load_four(lines[0] + at), b = load_four(lines[1] + at), c = load_four(lines[2] + at),
                    d = load_four(lines[3] + at);
  const float32x4_t ab = vtrn1q_f32(a, b), ba = vtrn2q_f32(a, b), cd = vtrn1q_f32(c, d), dc = vtrn2q_f32(c, d);
  vst1q_f32(to, pairs_below(ab, cd));
  vst1q_f32(to + P, pairs_below(ba, dc));
  vst1q_f32(to + 2 * P, pairs_above(ab, cd));
  vst1q_f32(to + 3 * P, pairs_above(ba, dc));
}

template <int64_t P, class T>
HONE_INLINE void pack_one_by_one(const T* from, const PanelSource& source, int64_t lines, int64_t first, float* to) {
  for (int64_t k = first; k < source.depth; ++k)
    for (int64_t p = 0; p < P; ++p)
      to[k * P + p] = p < lines ? static_cast<float>(from[p * source.line_stride + k * source.depth_stride]) : 0.0f;
}

template <int64_t P, class T>
HONE_INLINE void pack_panel(const T* from, const PanelSource& source, int64_t lines, float* to) {
  int64_t k = 0;
  if (lines == P && source.depth_stride == 1) {
    for (; k + 4 <= source.depth; k += 4)
#pragma GCC unroll 3
      for (int64_t p = 0; p < P; p += 4) {
        const T* line = from + p * source.line_stride;
        const T* const four[4] = {line, line + source.line_stride, line + 2 * source.line_stride, line + 3 * source.line_stride};
        transpose_four<P>(four, k, to + k * P + p);
      }
  } else if (lines == P && source.line_stride == 1) {
    for (; k < source.depth; ++k)
#pragma GCC unroll 3
      for (int64_t p = 0; p < P; p += 4) vst1q_f32(to + k * P + p, load_four(from + k * source.depth_stride + p));
  }
  pack_one_by_one<P>(from, source, lines, k, to);
}

// Packs lines that are adjacent in memory, several panels at a time, so that each step reads full cache lines; returns how many.
template <int64_t P, class T>
HONE_INLINE int64_t pack_adjacent(const T* from, const PanelSource& source, float* to) {
  constexpr int64_t kPanels = 4, kStepsAhead = 4, kCacheLine = 64 / static_cast<int64_t>(sizeof(T));
  int64_t line = 0;
  for (; line + kPanels * P <= source.lines; line += kPanels * P)
    for (int64_t k = 0; k < source.depth; ++k) {
      const T* step = from + line + k * source.depth_stride;
#pragma GCC unroll 3
      for (int64_t i = 0; i < kPanels * P; i += kCacheLine) __builtin_prefetch(step + kStepsAhead * source.depth_stride + i);
#pragma GCC unroll 4
      for (int64_t panel = 0; panel < kPanels; ++panel)
#pragma GCC unroll 3
        for (int64_t p = 0; p < P; p += 4)
          vst1q_f32(to + (line + panel * P) * source.depth + k * P + p, load_four(step + panel * P + p));
    }
  return line;
}

template <int64_t P, class T>
HONE_INLINE void pack_panels(const T* from, const PanelSource& source, float* to) {
  for (int64_t line = source.line_stride == 1 ? pack_adjacent<P>(from, source, to) : 0; line < source.lines; line += P)
    pack_panel<P>(from + line * source.line_stride, source, source.lines - line < P ? source.lines - line : P,
                  to + line * source.depth);
}

// A row of sums: twelve columns in three registers. Separate variables, since GCC keeps an array of them in memory.
struct SumRow {
  float32x4_t a, b, c;
};
template <int Lane>
HONE_INLINE void add_row(SumRow& row, float32x4_t x, float32x4_t a, float32x4_t b, float32x4_t c) {
  row.a = vfmaq_laneq_f32(row.a, a, x, Lane);
  row.b = vfmaq_laneq_f32(row.b, b, x, Lane);
  row.c = vfmaq_laneq_f32(row.c, c, x, Lane);
}
HONE_INLINE void put_row(const SumRow& row, float* to, bool increase) {
  vst1q_f32(to, increase ? vaddq_f32(vld1q_f32(to), row.a) : row.a);
  vst1q_f32(to + 4, increase ? vaddq_f32(vld1q_f32(to + 4), row.b) : row.b);
  vst1q_f32(to + 8, increase ? vaddq_f32(vld1q_f32(to + 8), row.c) : row.c);
}

template <bool Wide, int Lane>
HONE_INLINE void add_narrow(SumRow& row, float32x4_t x, float32x4_t a, float32x4_t b) {
  row.a = vfmaq_laneq_f32(row.a, a, x, Lane);
  if constexpr (Wide) row.b = vfmaq_laneq_f32(row.b, b, x, Lane);
}
template <bool Wide>
HONE_INLINE void put_narrow(const SumRow& row, float* to, bool increase) {
  vst1q_f32(to, increase ? vaddq_f32(vld1q_f32(to), row.a) : row.a);
  if constexpr (Wide) vst1q_f32(to + 4, increase ? vaddq_f32(vld1q_f32(to + 4), row.b) : row.b);
}

template <class T>
HONE_INLINE void store_all(const float* sums, const float* bias, T* to, int64_t count) {
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const float32x4_t four = vld1q_f32(sums + i);
    store_four(to + i, bias ? vaddq_f32(four, vld1q_f32(bias + i)) : four);
  }
  for (; i < count; ++i) to[i] = static_cast<T>(bias ? sums[i] + bias[i] : sums[i]);
}

}  // namespace

// The first four columns of a panel, or eight if Wide.
template <bool Wide>
__attribute__((noinline, noclone)) void multiply_narrow_panels(const float* x, const float* w, int64_t depth, float* sums,
                                                               int64_t stride, bool increase) {
  SumRow r0{}, r1{}, r2{}, r3{}, r4{}, r5{}, r6{}, r7{};
  for (int64_t k = 0; k < depth; ++k, x += kPanelRows, w += kPanelColumns) {
    const float32x4_t above = vld1q_f32(x), below = vld1q_f32(x + 4), a = vld1q_f32(w), b = Wide ? vld1q_f32(w + 4) : a;
    add_narrow<Wide, 0>(r0, above, a, b), add_narrow<Wide, 1>(r1, above, a, b), add_narrow<Wide, 2>(r2, above, a, b);
    add_narrow<Wide, 3>(r3, above, a, b), add_narrow<Wide, 0>(r4, below, a, b), add_narrow<Wide, 1>(r5, below, a, b);
    add_narrow<Wide, 2>(r6, below, a, b), add_narrow<Wide, 3>(r7, below, a, b);
  }
  put_narrow<Wide>(r0, sums, increase), put_narrow<Wide>(r1, sums + stride, increase);
  put_narrow<Wide>(r2, sums + 2 * stride, increase), put_narrow<Wide>(r3, sums + 3 * stride, increase);
  put_narrow<Wide>(r4, sums + 4 * stride, increase), put_narrow<Wide>(r5, sums + 5 * stride, increase);
  put_narrow<Wide>(r6, sums + 6 * stride, increase), put_narrow<Wide>(r7, sums + 7 * stride, increase);
}

MultiplyPanels multiply_panels_here(int64_t columns) {
  if (columns <= 4) return multiply_narrow_panels<false>;
  if (device::cpu_features().sve_bytes == 32) return multiply_panels_sve256;
  return columns <= 8 ? multiply_narrow_panels<true> : multiply_panels;
}

__attribute__((noinline, noclone)) void multiply_panels(const float* x, const float* w, int64_t depth, float* sums,
                                                        int64_t stride, bool increase) {
  SumRow r0{}, r1{}, r2{}, r3{}, r4{}, r5{}, r6{}, r7{};
  for (int64_t k = 0; k < depth; ++k, x += kPanelRows, w += kPanelColumns) {
    __builtin_prefetch(x + 16 * kPanelRows), __builtin_prefetch(w + 16 * kPanelColumns);
    const float32x4_t above = vld1q_f32(x), below = vld1q_f32(x + 4), a = vld1q_f32(w), b = vld1q_f32(w + 4),
                      c = vld1q_f32(w + 8);
    add_row<0>(r0, above, a, b, c), add_row<1>(r1, above, a, b, c), add_row<2>(r2, above, a, b, c),
        add_row<3>(r3, above, a, b, c);
    add_row<0>(r4, below, a, b, c), add_row<1>(r5, below, a, b, c), add_row<2>(r6, below, a, b, c),
        add_row<3>(r7, below, a, b, c);
  }
  put_row(r0, sums, increase), put_row(r1, sums + stride, increase), put_row(r2, sums + 2 * stride, increase);
  put_row(r3, sums + 3 * stride, increase), put_row(r4, sums + 4 * stride, increase), put_row(r5, sums + 5 * stride, increase);
  put_row(r6, sums + 6 * stride, increase), put_row(r7, sums + 7 * stride, increase);
}

#define HONE_DEFINE(T)                                                                                                           \
  void pack_row_panels(const T* from, const PanelSource& source, float* to) { pack_panels<kPanelRows>(from, source, to); }       \
  void pack_column_panels(const T* from, const PanelSource& source, float* to) { pack_panels<kPanelColumns>(from, source, to); } \
  void store_sums(const float* sums, const float* bias, T* to, int64_t count) { store_all(sums, bias, to, count); }
HONE_PANEL_TYPES(HONE_DEFINE)
#undef HONE_DEFINE

}  // namespace hone::ops::cpu

#endif
