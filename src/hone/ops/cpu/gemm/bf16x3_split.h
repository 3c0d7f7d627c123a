// Splits float32 into three bfloat16 numbers, sixteen at a time, in the layout of AMX tiles (see amx_bf16x6_gemm.h).
#pragma once
#include "hone/ops/cpu/gemm/amx_gemm.h"
#include "hone/ops/cpu/gemm/amx_tiles.h"

namespace hone::ops::cpu {

constexpr int64_t kTile = 16, kTileNumbers = kTile * kAmxInputs, kTileStride = kAmxInputs * 2;
constexpr int64_t kTileSums = kTile * kTile, kSumsStride = kTile * 4;
// Sums over this many inputs are accumulated separately: a long sum would lose more by rounding than the products do.
constexpr int64_t kSummedInputs = 512;
constexpr int64_t kSplitTerms = 3,
                  kPartsBlock =
                      kSplitTerms * kTileNumbers;  // the tiles of the high, the middle and the low parts, one after the other

}  // namespace hone::ops::cpu

#if defined(__x86_64__)
#include "hone/base/x86_intrinsics.h"

namespace hone::ops::cpu {

constexpr const c10::BFloat16* middle_of(const c10::BFloat16* block) { return block + kTileNumbers; }
constexpr const c10::BFloat16* low_of(const c10::BFloat16* block) { return block + 2 * kTileNumbers; }

struct Bf16x3 {
  __m512i high, middle, low;
};

// Two lanes' upper halves as pairs: (a0, b0), (a1, b1) ...
HONE_AMX_INLINE __m512i pairs_of(__m512i a, __m512i b) {
  const auto upper = _mm512_set4_epi32(0x0F0E0F0E, 0x0B0A0B0A, 0x07060706, 0x03020302);
  return _mm512_mask_shuffle_epi8(b, 0x3333333333333333u, a, upper);
}
HONE_AMX_INLINE __m512i upper_half(__m512i bits) {
  return _mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0xFFFF0000u)));
}
HONE_AMX_INLINE __m512i nearest_half(__m512i bits) { return upper_half(_mm512_add_epi32(bits, _mm512_set1_epi32(0x8000))); }
HONE_AMX_INLINE __m512i rest(__m512i bits, __m512i part) {
  return _mm512_castps_si512(_mm512_sub_ps(_mm512_castsi512_ps(bits), _mm512_castsi512_ps(part)));
}

// Pairs (i, i + 16) of 32 consecutive inputs. Truncated, which is fast: the three parts of 8 bits add up exactly to the float.
HONE_AMX_INLINE Bf16x3 truncating_split(const float* from) {
  const auto a0 = _mm512_loadu_si512(from), b0 = _mm512_loadu_si512(from + kTile);
  const auto a1 = rest(a0, upper_half(a0)), b1 = rest(b0, upper_half(b0));
  const auto a2 = rest(a1, upper_half(a1)), b2 = rest(b1, upper_half(b1));
  return {pairs_of(a0, b0), pairs_of(a1, b1), pairs_of(a2, b2)};
}
// Rounded, so that the error of the products is unbiased.
HONE_AMX_INLINE Bf16x3 rounding_split(const float* from) {
  const auto a0 = _mm512_loadu_si512(from), b0 = _mm512_loadu_si512(from + kTile), a_high = nearest_half(a0),
             b_high = nearest_half(b0);
  const auto a1 = rest(a0, a_high), b1 = rest(b0, b_high), a_middle = nearest_half(a1), b_middle = nearest_half(b1);
  return {pairs_of(a_high, b_high), pairs_of(a_middle, b_middle), pairs_of(rest(a1, a_middle), rest(b1, b_middle))};
}
HONE_AMX_INLINE void store_split(const float* from, c10::BFloat16* line) {
  const auto parts = truncating_split(from);
  _mm512_store_si512(line, parts.high);
  _mm512_store_si512(line + kTileNumbers, parts.middle);
  _mm512_store_si512(line + 2 * kTileNumbers, parts.low);
}

// Transposes by interleaving halves four times.
HONE_AMX_INLINE void transpose_tile(__m512i (&lines)[kTile]) {
  const auto first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
             second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
#pragma GCC unroll 4
  for (int round = 0; round < 4; ++round) {
    __m512i dealt[kTile];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      dealt[2 * i] = _mm512_permutex2var_epi32(lines[i], first, lines[i + 8]);
      dealt[2 * i + 1] = _mm512_permutex2var_epi32(lines[i], second, lines[i + 8]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kTile; ++i) lines[i] = dealt[i];
  }
}

HONE_AMX_INLINE void add_sums(const float* some, float* totals, int64_t count) {
  for (int64_t i = 0; i < count; i += kTile)
    _mm512_store_ps(totals + i, _mm512_add_ps(_mm512_load_ps(totals + i), _mm512_load_ps(some + i)));
}

// A tile holds sums by outputs; y by rows.
HONE_AMX inline void put_sums(const float* sums, int64_t outputs, int64_t rows, float* y, int64_t y_stride) {
  __m512i lines[kTile];
  for (int64_t n = 0; n < kTile; ++n) lines[n] = _mm512_load_si512(sums + n * kTile);
  transpose_tile(lines);
  const auto inside = static_cast<__mmask16>((1u << outputs) - 1);
  for (int64_t m = 0; m < rows; ++m) _mm512_mask_storeu_epi32(y + m * y_stride, inside, lines[m]);
}

HONE_AMX_INLINE void set_up_full_tiles() {
  TileSetup setup;
  for (int tile = 0; tile < 8; ++tile) setup.set(tile, kTile, kTileStride);
  set_up_tiles(setup);
}

}  // namespace hone::ops::cpu
#endif
