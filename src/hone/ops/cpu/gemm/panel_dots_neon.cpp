// panel_dots_kernels.h with Arm's int8 dot products.
#if defined(__aarch64__)

#include "hone/device/cpu_features.h"
#include "hone/ops/cpu/gemm/panel_dots_packing.h"
#include "hone/ops/cpu/gemm/panel_dots_sums.h"

namespace hone::ops::cpu {
namespace {

#define HONE_PANEL_DOTS __attribute__((target("arch=armv8.2-a+dotprod")))

// Transposes four words of four lines, so that lines are adjacent, P of them per panel.
template <int64_t P>
HONE_INLINE void store_word_columns(int32x4_t a, int32x4_t b, int32x4_t c, int32x4_t d, int32_t* to) {
  const int32x4_t ab = vtrn1q_s32(a, b), ba = vtrn2q_s32(a, b), cd = vtrn1q_s32(c, d), dc = vtrn2q_s32(c, d);
  const auto below = [](int32x4_t x, int32x4_t y) {
    return vreinterpretq_s32_s64(vtrn1q_s64(vreinterpretq_s64_s32(x), vreinterpretq_s64_s32(y)));
  };
  const auto above = [](int32x4_t x, int32x4_t y) {
    return vreinterpretq_s32_s64(vtrn2q_s64(vreinterpretq_s64_s32(x), vreinterpretq_s64_s32(y)));
  };
  vst1q_s32(to, below(ab, cd));
  vst1q_s32(to + P, below(ba, dc));
  vst1q_s32(to + 2 * P, above(ab, cd));
  vst1q_s32(to + 3 * P, above(ba, dc));
}

struct SideBySide {
  template <int64_t P, class Line>
  HONE_INLINE static void pack(int64_t words, int32_t* to, Line line) {
    for (int64_t word = 0; word < words; word += 4)
#pragma GCC unroll 3
      for (int64_t p = 0; p < P; p += 4)
        store_word_columns<P>(line(p, word), line(p + 1, word), line(p + 2, word), line(p + 3, word), to + word * P + p);
  }
  template <int64_t P, class Four>
  HONE_INLINE static void pack_fours(int64_t words, int32_t* to, Four four) {
    for (int64_t word = 0; word < words; ++word)
#pragma GCC unroll 3
      for (int64_t p = 0; p < P; p += 4) vst1q_s32(to + word * P + p, four(p, word));
  }
};

HONE_INLINE DotRow dots_from(int32x4_t start) { return {start, start, start}; }
template <int Lane>
HONE_PANEL_DOTS HONE_INLINE void add_dots_to(DotRow& row, int8x16_t x, int8x16_t a, int8x16_t b, int8x16_t c) {
  row.a = vdotq_laneq_s32(row.a, a, x, Lane);
  row.b = vdotq_laneq_s32(row.b, b, x, Lane);
  row.c = vdotq_laneq_s32(row.c, c, x, Lane);
}

struct DotRows {
  DotRow r0, r1, r2, r3, r4, r5, r6, r7;
};
HONE_PANEL_DOTS HONE_INLINE void add_words(DotRows& rows, const int32_t* x, const int32_t* w, int64_t words) {
  for (int64_t i = 0; i < words; ++i, x += kPanelRows, w += kPanelColumns) {
    const int8x16_t above = vreinterpretq_s8_s32(vld1q_s32(x)), below = vreinterpretq_s8_s32(vld1q_s32(x + 4));
    const int8x16_t a = vreinterpretq_s8_s32(vld1q_s32(w)), b = vreinterpretq_s8_s32(vld1q_s32(w + 4)),
                    c = vreinterpretq_s8_s32(vld1q_s32(w + 8));
    add_dots_to<0>(rows.r0, above, a, b, c), add_dots_to<1>(rows.r1, above, a, b, c);
    add_dots_to<2>(rows.r2, above, a, b, c), add_dots_to<3>(rows.r3, above, a, b, c);
    add_dots_to<0>(rows.r4, below, a, b, c), add_dots_to<1>(rows.r5, below, a, b, c);
    add_dots_to<2>(rows.r6, below, a, b, c), add_dots_to<3>(rows.r7, below, a, b, c);
  }
}

HONE_INLINE void shift_row(DotRow& row) {
  row.a = vshlq_n_s32(row.a, 7), row.b = vshlq_n_s32(row.b, 7), row.c = vshlq_n_s32(row.c, 7);
}

HONE_PANEL_DOTS __attribute__((noinline, noclone)) void multiply_int8_panels(const int32_t* x, const float* row_scales,
                                                                             const int32_t* w, int64_t groups, float* sums,
                                                                             int64_t stride) {
  constexpr int64_t kHalf = kInt8RowWords / 2;
  for (int64_t g = 0; g < groups;
       ++g, x += kInt8RowWords * kPanelRows, w += kInt8ColumnWords * kPanelColumns, row_scales += kPanelRows) {
    const DotRow none = dots_from(vdupq_n_s32(0));
    DotRows rows{none, none, none, none, none, none, none, none};
    add_words(rows, x, w, kHalf);
    shift_row(rows.r0), shift_row(rows.r1), shift_row(rows.r2), shift_row(rows.r3);
    shift_row(rows.r4), shift_row(rows.r5), shift_row(rows.r6), shift_row(rows.r7);
    add_words(rows, x + kHalf * kPanelRows, w, kHalf);
    const float32x4_t above = vld1q_f32(row_scales), below = vld1q_f32(row_scales + 4);
    put_scaled<0>(rows.r0, above, sums), put_scaled<1>(rows.r1, above, sums + stride);
    put_scaled<2>(rows.r2, above, sums + 2 * stride), put_scaled<3>(rows.r3, above, sums + 3 * stride);
    put_scaled<0>(rows.r4, below, sums + 4 * stride), put_scaled<1>(rows.r5, below, sums + 5 * stride);
    put_scaled<2>(rows.r6, below, sums + 6 * stride), put_scaled<3>(rows.r7, below, sums + 7 * stride);
  }
}

HONE_PANEL_DOTS __attribute__((noinline, noclone)) void multiply_int4_panels(const int32_t* x, const float* row_scales,
                                                                             const float* row_sums, const int32_t* w,
                                                                             const float* column_scales, int64_t groups,
                                                                             float* sums, int64_t stride) {
  for (int64_t g = 0; g < groups; ++g, x += kInt4Words * kPanelRows, w += kInt4Words * kPanelColumns, row_scales += kPanelRows,
               row_sums += kPanelRows, column_scales += 2 * kPanelColumns) {
    const DotRow none = dots_from(bits_of_dots());
    DotRows rows{none, none, none, none, none, none, none, none};
    add_words(rows, x, w, kInt4Words);
    const ColumnScales factor = load_columns(column_scales), lowest = load_columns(column_scales + kPanelColumns);
    const float32x4_t above = vld1q_f32(row_scales), below = vld1q_f32(row_scales + 4), sum = vld1q_f32(row_sums),
                      sum2 = vld1q_f32(row_sums + 4);
    put_group<0>(rows.r0, factor, lowest, above, sum, sums), put_group<1>(rows.r1, factor, lowest, above, sum, sums + stride);
    put_group<2>(rows.r2, factor, lowest, above, sum, sums + 2 * stride),
        put_group<3>(rows.r3, factor, lowest, above, sum, sums + 3 * stride);
    put_group<0>(rows.r4, factor, lowest, below, sum2, sums + 4 * stride),
        put_group<1>(rows.r5, factor, lowest, below, sum2, sums + 5 * stride);
    put_group<2>(rows.r6, factor, lowest, below, sum2, sums + 6 * stride),
        put_group<3>(rows.r7, factor, lowest, below, sum2, sums + 7 * stride);
  }
}

}  // namespace

using Packing = PanelPacking<SideBySide>;
const PanelDotKernels kSdotPanels{Packing::int8_rows,   Packing::int4_rows,   Packing::int8_columns, Packing::int4_columns,
                                  Packing::int4_scales, multiply_int8_panels, multiply_int4_panels};

const PanelDotKernels& panel_dot_kernels() {
  static const auto& kernels = device::cpu_features().int8_matrix ? kSmmlaPanels : kSdotPanels;
  return kernels;
}

}  // namespace hone::ops::cpu

#endif
