// panel_dots_kernels.h with Arm's int8 matrix multiplication (I8MM): one instruction multiplies eight bytes of two rows by eight
// bytes of two outputs, twice the work of a dot product. Words are stored in pairs, those of two lines in one register.
#if defined(__aarch64__)

#include "hone/ops/cpu/gemm/panel_dots_packing.h"
#include "hone/ops/cpu/gemm/panel_dots_sums.h"

namespace hone::ops::cpu {
namespace {

#define HONE_I8MM __attribute__((target("arch=armv8.2-a+dotprod+i8mm")))

HONE_INLINE int32x4_t halves_below(int32x4_t x, int32x4_t y) {
  return vreinterpretq_s32_s64(vzip1q_s64(vreinterpretq_s64_s32(x), vreinterpretq_s64_s32(y)));
}
HONE_INLINE int32x4_t halves_above(int32x4_t x, int32x4_t y) {
  return vreinterpretq_s32_s64(vzip2q_s64(vreinterpretq_s64_s32(x), vreinterpretq_s64_s32(y)));
}

struct ByPairs {
  template <int64_t P, class Line>
  HONE_INLINE static void pack(int64_t words, int32_t* to, Line line) {
    for (int64_t word = 0; word < words; word += 4)
#pragma GCC unroll 6
      for (int64_t p = 0; p < P; p += 2) {
        const int32x4_t a = line(p, word), b = line(p + 1, word);
        vst1q_s32(to + word * P + p * 2, halves_below(a, b));
        vst1q_s32(to + (word + 2) * P + p * 2, halves_above(a, b));
      }
  }
  template <int64_t P, class Four>
  HONE_INLINE static void pack_fours(int64_t words, int32_t* to, Four four) {
    for (int64_t word = 0; word < words; word += 2)
#pragma GCC unroll 3
      for (int64_t p = 0; p < P; p += 4) {
        const int32x4_t a = four(p, word), b = four(p, word + 1);
        vst1q_s32(to + word * P + p * 2, vzip1q_s32(a, b));
        vst1q_s32(to + word * P + p * 2 + 4, vzip2q_s32(a, b));
      }
  }
};

// Two rows times twelve columns: each register holds the sums of both rows with two columns.
struct PairSums {
  int32x4_t a, b, c, d, e, f;

  HONE_INLINE void shift() {
    a = vshlq_n_s32(a, 7), b = vshlq_n_s32(b, 7), c = vshlq_n_s32(c, 7);
    d = vshlq_n_s32(d, 7), e = vshlq_n_s32(e, 7), f = vshlq_n_s32(f, 7);
  }
  HONE_INLINE DotRow first() const { return {halves_below(a, b), halves_below(c, d), halves_below(e, f)}; }
  HONE_INLINE DotRow second() const { return {halves_above(a, b), halves_above(c, d), halves_above(e, f)}; }
};
struct PairRows {
  PairSums p0, p1, p2, p3;
};
HONE_INLINE PairRows pairs_from(int32x4_t start) {
  const PairSums one{start, start, start, start, start, start};
  return {one, one, one, one};
}

HONE_I8MM HONE_INLINE void add_word_pairs(PairRows& rows, const int32_t* x, const int32_t* w, int64_t words) {
  for (int64_t i = 0; i < words; i += 2, x += 2 * kPanelRows, w += 2 * kPanelColumns) {
    const int8x16_t x0 = vreinterpretq_s8_s32(vld1q_s32(x)), x1 = vreinterpretq_s8_s32(vld1q_s32(x + 4)),
                    x2 = vreinterpretq_s8_s32(vld1q_s32(x + 8)), x3 = vreinterpretq_s8_s32(vld1q_s32(x + 12));
    const auto add = [&](int32x4_t PairSums::*sums, const int32_t* from)
        __attribute__((always_inline, target("arch=armv8.2-a+dotprod+i8mm"))) {
      const int8x16_t columns = vreinterpretq_s8_s32(vld1q_s32(from));
      rows.p0.*sums = vmmlaq_s32(rows.p0.*sums, x0, columns), rows.p1.*sums = vmmlaq_s32(rows.p1.*sums, x1, columns);
      rows.p2.*sums = vmmlaq_s32(rows.p2.*sums, x2, columns), rows.p3.*sums = vmmlaq_s32(rows.p3.*sums, x3, columns);
    };
    add(&PairSums::a, w), add(&PairSums::b, w + 4), add(&PairSums::c, w + 8);
    add(&PairSums::d, w + 12), add(&PairSums::e, w + 16), add(&PairSums::f, w + 20);
  }
}

HONE_I8MM __attribute__((noinline, noclone)) void multiply_int8_pairs(const int32_t* x, const float* row_scales, const int32_t* w,
                                                                      int64_t groups, float* sums, int64_t stride) {
  constexpr int64_t kHalf = kInt8RowWords / 2;
  for (int64_t g = 0; g < groups;
       ++g, x += kInt8RowWords * kPanelRows, w += kInt8ColumnWords * kPanelColumns, row_scales += kPanelRows) {
    PairRows rows = pairs_from(vdupq_n_s32(0));
    add_word_pairs(rows, x, w, kHalf);
    rows.p0.shift(), rows.p1.shift(), rows.p2.shift(), rows.p3.shift();
    add_word_pairs(rows, x + kHalf * kPanelRows, w, kHalf);
    const float32x4_t above = vld1q_f32(row_scales), below = vld1q_f32(row_scales + 4);
    put_scaled<0>(rows.p0.first(), above, sums), put_scaled<1>(rows.p0.second(), above, sums + stride);
    put_scaled<2>(rows.p1.first(), above, sums + 2 * stride), put_scaled<3>(rows.p1.second(), above, sums + 3 * stride);
    put_scaled<0>(rows.p2.first(), below, sums + 4 * stride), put_scaled<1>(rows.p2.second(), below, sums + 5 * stride);
    put_scaled<2>(rows.p3.first(), below, sums + 6 * stride), put_scaled<3>(rows.p3.second(), below, sums + 7 * stride);
  }
}

HONE_I8MM __attribute__((noinline, noclone)) void multiply_int4_pairs(const int32_t* x, const float* row_scales,
                                                                      const float* row_sums, const int32_t* w,
                                                                      const float* column_scales, int64_t groups, float* sums,
                                                                      int64_t stride) {
  for (int64_t g = 0; g < groups; ++g, x += kInt4Words * kPanelRows, w += kInt4Words * kPanelColumns, row_scales += kPanelRows,
               row_sums += kPanelRows, column_scales += 2 * kPanelColumns) {
    PairRows rows = pairs_from(bits_of_dots());
    add_word_pairs(rows, x, w, kInt4Words);
    const ColumnScales factor = load_columns(column_scales), lowest = load_columns(column_scales + kPanelColumns);
    const float32x4_t above = vld1q_f32(row_scales), below = vld1q_f32(row_scales + 4), sum = vld1q_f32(row_sums),
                      sum2 = vld1q_f32(row_sums + 4);
    put_group<0>(rows.p0.first(), factor, lowest, above, sum, sums);
    put_group<1>(rows.p0.second(), factor, lowest, above, sum, sums + stride);
    put_group<2>(rows.p1.first(), factor, lowest, above, sum, sums + 2 * stride);
    put_group<3>(rows.p1.second(), factor, lowest, above, sum, sums + 3 * stride);
    put_group<0>(rows.p2.first(), factor, lowest, below, sum2, sums + 4 * stride);
    put_group<1>(rows.p2.second(), factor, lowest, below, sum2, sums + 5 * stride);
    put_group<2>(rows.p3.first(), factor, lowest, below, sum2, sums + 6 * stride);
    put_group<3>(rows.p3.second(), factor, lowest, below, sum2, sums + 7 * stride);
  }
}

}  // namespace

using PairPacking = PanelPacking<ByPairs>;
const PanelDotKernels kSmmlaPanels{PairPacking::int8_rows,    PairPacking::int4_rows,   PairPacking::int8_columns,
                                   PairPacking::int4_columns, PairPacking::int4_scales, multiply_int8_pairs,
                                   multiply_int4_pairs};

}  // namespace hone::ops::cpu

#endif
