#if defined(__x86_64__)

#include "hone/ops/cpu/gemm/x86/panel_dots_packing.h"

#include "hone/ops/cpu/gemm/packed_layout.h"
#include "hone/ops/cpu/gemm/panel_gemm_kernels.h"
#include "hone/ops/cpu/gemm/x86/panel_squares.h"

namespace hone::ops::cpu {
namespace {

// Sixteen words of up to sixteen lines: put(word, lines). Missing lines are zero.
template <class Squares, class Put>
HONE_INLINE void transpose_words(const WordLines& from, int64_t line, int64_t word, Put put) {
  const int32_t* words = from.from + line * from.stride + from.first + word;
  Squares::transpose(
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

// Where a word of even inputs or weights goes, of which each group has four; those of its odd ones follow.
HONE_INLINE int64_t place_of(int64_t word) { return word / kInt4CodeWords * kInt4Words + word % kInt4CodeWords; }

template <class Squares>
HONE_INLINE void int8_rows(const WordLines& rows, int64_t groups, int32_t* to) {
  for (int64_t at = 0; at < groups * kInt8RowWords; at += kSquare)
    transpose_words<Squares>(
        rows, 0,
        at, [&](int64_t i, Words words) __attribute__((always_inline)) { store_rows(to + (at + i) * kPanelRows, words); });
}

template <class Squares>
HONE_INLINE void int4_rows(const WordLines& rows, int64_t groups, int32_t* to) {
  for (int64_t at = 0; at < groups * kInt4Words; at += 2 * kSquare)
    for (int64_t odd = 0; odd < 2; ++odd)
      transpose_words<Squares>(
          rows, 0, at + odd * kSquare, [&](int64_t i, Words words) __attribute__((always_inline)) {
            store_rows(to + (at + place_of(i) + odd * kInt4CodeWords) * kPanelRows, words);
          });
}

template <class Squares>
HONE_INLINE void int8_columns(const WordLines& codes, int64_t groups, int32_t* to) {
  static_assert(kInt8CodeWords == kSquare);
  for (int64_t g = 0; g < groups; ++g, to += kInt8ColumnWords * kPanelColumns)
    for (int64_t c = 0; c < kPanelColumns; c += kSquare)
      transpose_words<Squares>(
          codes, c, g * kInt8CodeWords, [&](int64_t i, Words words) __attribute__((always_inline)) {
            const PairedCodes pairs = paired_codes(words);
            store_columns(to + i * kPanelColumns + c, pairs.even);
            store_columns(to + (kInt8CodeWords + i) * kPanelColumns + c, pairs.odd);
          });
}

template <class Squares>
HONE_INLINE void int4_columns(const WordLines& codes, int64_t groups, int32_t* to) {
  for (int64_t at = 0; at < groups * kInt4CodeWords; at += kSquare)
    for (int64_t c = 0; c < kPanelColumns; c += kSquare)
      transpose_words<Squares>(
          codes, c, at, [&](int64_t i, Words words) __attribute__((always_inline)) {
            int32_t* place = to + place_of(at + i) * kPanelColumns + c;
            store_columns(place, words & 0x0F0F0F0Fu);
            store_columns(place + kInt4CodeWords * kPanelColumns, (words >> 4) & 0x0F0F0F0Fu);
          });
}

template <class Squares>
HONE_INLINE void int4_scales(const ScaleLines& scales, int64_t groups, float* to) {
  for (int64_t span = 0; span < groups; span += kGroupSpan)
    for (int64_t which = 0; which < 2; ++which)
      for (int64_t c = 0; c < kPanelColumns; c += kSquare) {
        const auto* from = scales.from + c * scales.stride + (scales.first + span) * 2 + which * kGroupSpan;
        Squares::transpose(
            [&](int64_t i) __attribute__((always_inline)) {
              return c + i < scales.lines ? load(from + i * scales.stride, FullVector{}) : F32x16{};
            },
            [&](int64_t g, F32x16 values) __attribute__((always_inline)) {
              if (span + g < groups) store(to + ((span + g) * 2 + which) * kPanelColumns + c, values, FullVector{});
            });
      }
}

}  // namespace

HONE_SQUARES_KERNEL(pack_int8_rows, int8_rows, const WordLines&, int64_t, int32_t*)
HONE_SQUARES_KERNEL(pack_int4_rows, int4_rows, const WordLines&, int64_t, int32_t*)
HONE_SQUARES_KERNEL(pack_int8_columns, int8_columns, const WordLines&, int64_t, int32_t*)
HONE_SQUARES_KERNEL(pack_int4_columns, int4_columns, const WordLines&, int64_t, int32_t*)
HONE_SQUARES_KERNEL(pack_int4_scales, int4_scales, const ScaleLines&, int64_t, float*)

}  // namespace hone::ops::cpu

#endif
