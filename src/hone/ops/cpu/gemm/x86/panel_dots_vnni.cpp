// panel_dots_kernels.h with AVX-512's integer dot products (VNNI): of four bytes for 4 bits, of two 16-bit numbers for 8 bits.
// The latter take as many multiplications as inputs split into two bytes would, but no shift and no correction for unsigned
// codes.
#if defined(__x86_64__)

#include "hone/ops/cpu/gemm/panel_dots_kernels.h"
#include "hone/ops/cpu/gemm/panel_gemm_kernels.h"
#include "hone/ops/cpu/gemm/x86/panel_dots_packing.h"
#include "hone/ops/cpu/gemm/x86/vnni.h"

namespace hone::ops::cpu {
namespace {

// Adds the products of a group to the sums of a panel's rows, two vectors of columns each.
template <int64_t kWords, auto kAdd>
HONE_VNNI HONE_INLINE void add_group(I32x16 (&dots)[kPanelRows][2], const int32_t* x, const int32_t* w) {
  static_assert(kPanelColumns == 2 * kVectorWidth);
  for (int64_t word = 0; word < kWords; ++word, x += kPanelRows, w += kPanelColumns) {
    const Words a = load_words(w), b = load_words(w + kVectorWidth);
#pragma GCC unroll 12
    for (int64_t r = 0; r < kPanelRows; ++r) {
      const auto row = reinterpret_cast<Words>(_mm512_set1_epi32(x[r]));
      dots[r][0] = kAdd(dots[r][0], a, row), dots[r][1] = kAdd(dots[r][1], b, row);
    }
  }
}

// A group's product has kInt8RowWords words, and its sum is below 64 * 128 * 2^14 = 2^27.
HONE_VNNI __attribute__((noinline)) void multiply_int8(const int32_t* x, const float* row_scales, const int32_t* w,
                                                       int64_t groups, float* sums, int64_t stride) {
  static_assert(kInt8RowWords == kInt8ColumnWords);
  for (int64_t g = 0; g < groups;
       ++g, x += kInt8RowWords * kPanelRows, w += kInt8ColumnWords * kPanelColumns, row_scales += kPanelRows) {
    I32x16 dots[kPanelRows][2] = {};
    add_group<kInt8RowWords, add_pair_dots>(dots, x, w);
#pragma GCC unroll 12
    for (int64_t r = 0; r < kPanelRows; ++r)
#pragma GCC unroll 2
      for (int64_t c = 0; c < 2; ++c) {
        float* to = sums + r * stride + c * kVectorWidth;
        store(to, load(to, FullVector{}) + __builtin_convertvector(dots[r][c], F32x16) * row_scales[r], FullVector{});
      }
  }
}

// Sums start at the bits of 1.5 * 2^23: adding an integer to its bits adds it to its value, so they are floats without a
// conversion.
HONE_VNNI __attribute__((noinline)) void multiply_int4(const int32_t* x, const float* row_scales, const float* row_sums,
                                                       const int32_t* w, const float* column_scales, int64_t groups, float* sums,
                                                       int64_t stride) {
  const F32x16 start = splat(12582912.0f);
  for (int64_t g = 0; g < groups; ++g, x += kInt4Words * kPanelRows, w += kInt4Words * kPanelColumns, row_scales += kPanelRows,
               row_sums += kPanelRows, column_scales += 2 * kPanelColumns) {
    I32x16 dots[kPanelRows][2];
#pragma GCC unroll 12
    for (int64_t r = 0; r < kPanelRows; ++r) dots[r][0] = dots[r][1] = reinterpret_cast<I32x16>(start);
    add_group<kInt4Words, add_byte_dots>(dots, x, w);
    const F32x16 factors[2] = {load(column_scales, FullVector{}), load(column_scales + kVectorWidth, FullVector{})},
                 lowest[2] = {load(column_scales + kPanelColumns, FullVector{}),
                              load(column_scales + kPanelColumns + kVectorWidth, FullVector{})};
#pragma GCC unroll 12
    for (int64_t r = 0; r < kPanelRows; ++r)
#pragma GCC unroll 2
      for (int64_t c = 0; c < 2; ++c) {
        float* to = sums + r * stride + c * kVectorWidth;
        const F32x16 value = (reinterpret_cast<F32x16>(dots[r][c]) - start) * factors[c];
        store(to, load(to, FullVector{}) + lowest[c] * row_sums[r] + value * row_scales[r], FullVector{});
      }
  }
}

}  // namespace

const PanelDotKernels kVnniPanels{pack_int8_rows,   pack_int4_rows, pack_int8_columns, pack_int4_columns,
                                  pack_int4_scales, multiply_int8,  multiply_int4};

}  // namespace hone::ops::cpu

#endif
