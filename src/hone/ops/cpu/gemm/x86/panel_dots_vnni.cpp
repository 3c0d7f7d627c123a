// panel_dots_kernels.h with AVX-512's integer dot products (VNNI): of four bytes for 4 bits, of two 16-bit numbers for 8 bits.
// The latter take as many multiplications as inputs split into two bytes would, but no shift and no correction for unsigned
// codes.
#if defined(__x86_64__)

#include "hone/ops/cpu/gemm/panel_dots_kernels.h"
#include "hone/ops/cpu/gemm/panel_gemm_kernels.h"
#include "hone/ops/cpu/gemm/x86/panel_squares.h"
#include "hone/ops/cpu/gemm/x86/vnni.h"

namespace hone::ops::cpu {
namespace {

// Sixteen words of up to sixteen lines: put(word, lines). Missing lines are zero.
template <class Put>
HONE_INLINE void transpose_words(const WordLines& from, int64_t line, int64_t word, Put put) {
  const int32_t* words = from.from + line * from.stride + from.first + word;
  transpose_square(
      [&](int64_t i) __attribute__((always_inline)) {
        return line + i < from.lines ? reinterpret_cast<F32x16>(load_words(words + i * from.stride)) : F32x16{};
      },
      [&](int64_t i, F32x16 values) __attribute__((always_inline)) { put(i, reinterpret_cast<Words>(values)); });
}

HONE_INLINE void store_rows(int32_t* to, Words words) {
  static_assert(kPanelRows <= kSquare);
  std::memcpy(to, &words, kPanelRows * sizeof(int32_t));
}
HONE_INLINE void store_columns(int32_t* to, Words words) { std::memcpy(to, &words, sizeof words); }

HONE_VNNI void pack_int8_rows(const WordLines& rows, int64_t groups, int32_t* to) {
  for (int64_t at = 0; at < groups * kInt8RowWords; at += kSquare)
    transpose_words(
        rows, 0,
        at, [&](int64_t i, Words words) __attribute__((always_inline)) { store_rows(to + (at + i) * kPanelRows, words); });
}

// Where a word of even inputs or weights goes, of which each group has four; those of its odd ones follow.
HONE_INLINE int64_t place_of(int64_t word) { return word / kInt4CodeWords * kInt4Words + word % kInt4CodeWords; }

HONE_VNNI void pack_int4_rows(const WordLines& rows, int64_t groups, int32_t* to) {
  for (int64_t at = 0; at < groups * kInt4Words; at += 2 * kSquare)
    for (int64_t odd = 0; odd < 2; ++odd)
      transpose_words(
          rows, 0, at + odd * kSquare, [&](int64_t i, Words words) __attribute__((always_inline)) {
            store_rows(to + (at + place_of(i) + odd * kInt4CodeWords) * kPanelRows, words);
          });
}

HONE_VNNI void pack_int8_columns(const WordLines& codes, int64_t groups, int32_t* to) {
  static_assert(kInt8CodeWords == kSquare);
  for (int64_t g = 0; g < groups; ++g, to += kInt8ColumnWords * kPanelColumns)
    for (int64_t c = 0; c < kPanelColumns; c += kSquare)
      transpose_words(
          codes, c, g * kInt8CodeWords, [&](int64_t i, Words words) __attribute__((always_inline)) {
            const PairedCodes pairs = paired_codes(words);
            store_columns(to + i * kPanelColumns + c, pairs.even);
            store_columns(to + (kInt8CodeWords + i) * kPanelColumns + c, pairs.odd);
          });
}

HONE_VNNI void pack_int4_columns(const WordLines& codes, int64_t groups, int32_t* to) {
  for (int64_t at = 0; at < groups * kInt4CodeWords; at += kSquare)
    for (int64_t c = 0; c < kPanelColumns; c += kSquare)
      transpose_words(
          codes, c, at, [&](int64_t i, Words words) __attribute__((always_inline)) {
            int32_t* place = to + place_of(at + i) * kPanelColumns + c;
            store_columns(place, words & 0x0F0F0F0Fu);
            store_columns(place + kInt4CodeWords * kPanelColumns, (words >> 4) & 0x0F0F0F0Fu);
          });
}

HONE_VNNI void pack_int4_scales(const ScaleLines& scales, int64_t groups, float* to) {
  for (int64_t span = 0; span < groups; span += kGroupSpan)
    for (int64_t which = 0; which < 2; ++which)
      for (int64_t c = 0; c < kPanelColumns; c += kSquare) {
        const auto* from = scales.from + c * scales.stride + (scales.first + span) * 2 + which * kGroupSpan;
        transpose_square(
            [&](int64_t i) __attribute__((always_inline)) {
              return c + i < scales.lines ? load(from + i * scales.stride, FullVector{}) : F32x16{};
            },
            [&](int64_t g, F32x16 values) __attribute__((always_inline)) {
              if (span + g < groups) store(to + ((span + g) * 2 + which) * kPanelColumns + c, values, FullVector{});
            });
      }
}

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

const PanelDotKernels& panel_dot_kernels() {
  static constexpr PanelDotKernels kVnniPanels{pack_int8_rows,   pack_int4_rows, pack_int8_columns, pack_int4_columns,
                                               pack_int4_scales, multiply_int8,  multiply_int4};
  return kVnniPanels;
}

}  // namespace hone::ops::cpu

#endif
