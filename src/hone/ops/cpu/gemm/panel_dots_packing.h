// The packing functions of panel_dots_kernels.h. An instruction set gives its order of words: `Order::pack<P>(words, to, line)`
// stores the words of P lines, where line(p, word) loads four words of line p, and `Order::pack_fours<P>(words, to, four)` those
// of interleaved lines, where four(p, word) loads one word of the four lines from p on.
#pragma once
#include <arm_neon.h>

#include "hone/ops/cpu/gemm/arm/interleaved_layout.h"
#include "hone/ops/cpu/gemm/packed_layout.h"
#include "hone/ops/cpu/gemm/panel_dots_kernels.h"
#include "hone/ops/cpu/gemm/panel_gemm_kernels.h"
#include "hone/ops/cpu/simd.h"

namespace hone::ops::cpu {

// Codes of eight and of four bits as signed bytes, a word of each of four outputs.
HONE_INLINE int32x4_t signed_bytes(int32x4_t codes) {
  return veorq_s32(codes, vreinterpretq_s32_s8(vdupq_n_s8(-128)));  // kInt8Zero: by it unsigned codes become signed ones
}
HONE_INLINE int32x4_t even_codes(int32x4_t codes) {
  return vreinterpretq_s32_u8(vandq_u8(vreinterpretq_u8_s32(codes), vdupq_n_u8(15)));
}
HONE_INLINE int32x4_t odd_codes(int32x4_t codes) { return vreinterpretq_s32_u8(vshrq_n_u8(vreinterpretq_u8_s32(codes), 4)); }

template <class Order>
struct PanelPacking {
  static void int8_rows(const WordLines& rows, int64_t groups, int32_t* to) { row_words(rows, 0, groups * kInt8RowWords, to); }

  // The even inputs of each block come first, then the odd ones.
  static void int4_rows(const WordLines& rows, int64_t groups, int32_t* to) {
    constexpr int64_t kHalfBlock = kPackedBlock / 8;  // words
    for (int64_t g = 0; g < groups; ++g, to += kInt4Words * kPanelRows) {
      const int64_t from = g * kInt4CodeWords / kHalfBlock * 2 * kHalfBlock + g * kInt4CodeWords % kHalfBlock;
      row_words(rows, from, kInt4CodeWords, to);
      row_words(rows, from + kHalfBlock, kInt4CodeWords, to + kInt4CodeWords * kPanelRows);
    }
  }

  static void int8_columns(const WordLines& codes, int64_t groups, int32_t* to) {
    Order::template pack_fours<kPanelColumns>(
        groups * kInt8ColumnWords,
        to, [&](int64_t p, int64_t word) __attribute__((always_inline)) { return signed_bytes(four_words(codes, p, word)); });
  }

  static void int4_columns(const WordLines& codes, int64_t groups, int32_t* to) {
    for (int64_t g = 0; g < groups; ++g, to += kInt4Words * kPanelColumns) {
      Order::template pack_fours<kPanelColumns>(
          kInt4CodeWords, to, [&](int64_t p, int64_t word) __attribute__((always_inline)) {
            return even_codes(four_words(codes, p, g * kInt4CodeWords + word));
          });
      Order::template pack_fours<kPanelColumns>(
          kInt4CodeWords, to + kInt4CodeWords * kPanelColumns, [&](int64_t p, int64_t word) __attribute__((always_inline)) {
            return odd_codes(four_words(codes, p, g * kInt4CodeWords + word));
          });
    }
  }

  static void int4_scales(const ScaleLines& scales, int64_t groups, float* to) {
    for (int64_t g = scales.first; g < scales.first + groups; ++g, to += 2 * kPanelColumns)
      for (int64_t p = 0; p < kPanelColumns; p += kInterleavedOutputs) copy_scales(scales, p, g, to + p);
  }

 private:
  // A group's scales and minimums for four outputs from the p-th on: interleaved, or separately stored at the end. Missing ones
  // are zero.
  static void copy_scales(const ScaleLines& scales, int64_t p, int64_t g, float* to) {
    const auto* from = scales.from + p * scales.stride;
    const int64_t lines = scales.lines - p;
    for (int64_t which = 0; which < 2; ++which)
      for (int64_t i = 0; i < kInterleavedOutputs; ++i) {
        float value = 0;
        if (lines >= kInterleavedOutputs)
          value = from[(g * 2 + which) * kInterleavedOutputs + i];
        else if (i < lines)
          value = from[i * scales.stride + (g / kGroupSpan * 2 + which) * kGroupSpan + g % kGroupSpan];
        to[which * kPanelColumns + i] = value;
      }
  }

  // A word of four outputs: interleaved, or separately stored at the end. Missing ones are zero.
  HONE_INLINE static int32x4_t four_words(const WordLines& codes, int64_t p, int64_t word) {
    const int32_t* lines = codes.from + p * codes.stride;
    if (p + kInterleavedOutputs <= codes.lines) return vld1q_s32(lines + (codes.first + word) * kInterleavedOutputs);
    int32_t rest[kInterleavedOutputs] = {};
    for (int64_t i = 0; p + i < codes.lines; ++i) rest[i] = lines[i * codes.stride + codes.first + word];
    return vld1q_s32(rest);
  }

  // Missing lines are zero.
  static void row_words(const WordLines& rows, int64_t first, int64_t words, int32_t* to) {
    const int32_t* from = rows.from + rows.first + first;
    Order::template pack<kPanelRows>(
        words, to, [&](int64_t p, int64_t word) __attribute__((always_inline)) {
          return p < rows.lines ? vld1q_s32(from + p * rows.stride + word) : vdupq_n_s32(0);
        });
  }
};

}  // namespace hone::ops::cpu
