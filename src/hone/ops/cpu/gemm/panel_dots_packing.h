// The packing functions of panel_dots_kernels.h. An instruction set gives its order of words: `Order::pack<P>(words, to, line)`
// stores the words of P lines, where line(p, word) loads four words of line p, and `Order::pack_fours<P>(words, to, four)` those
// of interleaved lines, where four(p, word) loads one word of the four lines from p on.
#pragma once
#include <arm_neon.h>

#include "hone/ops/cpu/gemm/arm/interleaved_layout.h"
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
  static void rows(const int32_t* from, int64_t stride, int64_t lines, int64_t words, int32_t* to) {
    pack<kPanelRows>(
        lines, words,
        to, [&](int64_t p, int64_t word) __attribute__((always_inline)) { return vld1q_s32(from + p * stride + word); });
  }

  static void int8_columns(const ColumnCodes& codes, int64_t groups, int32_t* to) {
    Order::template pack_fours<kPanelColumns>(
        groups * kInt8ColumnWords,
        to, [&](int64_t p, int64_t word) __attribute__((always_inline)) { return signed_bytes(four_words(codes, p, word)); });
  }

  static void int4_columns(const ColumnCodes& codes, int64_t groups, int32_t* to) {
    for (int64_t g = 0; g < groups; ++g, to += kInt4Words * kPanelColumns) {
      Order::template pack_fours<kPanelColumns>(
          4, to, [&](int64_t p, int64_t word) __attribute__((always_inline)) {
            return even_codes(four_words(codes, p, g * 4 + word));
          });
      Order::template pack_fours<kPanelColumns>(
          4, to + 4 * kPanelColumns, [&](int64_t p, int64_t word) __attribute__((always_inline)) {
            return odd_codes(four_words(codes, p, g * 4 + word));
          });
    }
  }

 private:
  // A word of four outputs: interleaved, or separately stored at the end. Missing ones are zero.
  HONE_INLINE static int32x4_t four_words(const ColumnCodes& codes, int64_t p, int64_t word) {
    const int32_t* lines = codes.words + p * codes.stride;
    if (p + kInterleavedOutputs <= codes.lines) return vld1q_s32(lines + (codes.first + word) * kInterleavedOutputs);
    int32_t rest[kInterleavedOutputs] = {};
    for (int64_t i = 0; p + i < codes.lines; ++i) rest[i] = lines[i * codes.stride + codes.first + word];
    return vld1q_s32(rest);
  }

  // Missing lines are zero.
  template <int64_t P, class Load>
  HONE_INLINE static void pack(int64_t lines, int64_t words, int32_t* to, Load load) {
    Order::template pack<P>(
        words,
        to, [&](int64_t p, int64_t word) __attribute__((always_inline)) { return p < lines ? load(p, word) : vdupq_n_s32(0); });
  }
};

}  // namespace hone::ops::cpu
