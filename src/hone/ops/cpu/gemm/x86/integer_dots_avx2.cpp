#if defined(__x86_64__)

#include <algorithm>

#include "hone/ops/cpu/gemm/packed_layout.h"
#include "hone/ops/cpu/gemm/x86/avx2.h"
#include "hone/ops/cpu/gemm/x86/integer_dots.h"

namespace hone::ops::cpu {
namespace {

constexpr int64_t kWordsAtATime = kPackedWords / 2;  // a register of them

// The codes of a group, less kInt8Zero, in the order of its inputs' words: even bytes, then odd ones.
struct GroupCodes {
  __m256i of[4];
};
HONE_AVX2 HONE_INLINE GroupCodes group_codes(const int32_t* codes) {
  const __m256i low = load_integers(codes), high = load_integers(codes + kWordsAtATime), bytes = _mm256_set1_epi16(0xFF),
                zero = _mm256_set1_epi16(kInt8Zero);
  return {{_mm256_sub_epi16(_mm256_and_si256(low, bytes), zero), _mm256_sub_epi16(_mm256_and_si256(high, bytes), zero),
           _mm256_sub_epi16(_mm256_srli_epi16(low, 8), zero), _mm256_sub_epi16(_mm256_srli_epi16(high, 8), zero)}};
}

// A sum of a group is below 64 * 128 * 2^14 = 2^27.
template <int64_t X, int64_t W>
HONE_AVX2 void split_tile_avx2(const Int16Activations& x, const int32_t* codes, float* y, const SkinnyShape& shape) {
  __m256 sums[W][X] = {};
  const int64_t words = shape.width / 4, groups = shape.width / kSplitGroup;
  for (int64_t g = 0; g < groups; ++g)
#pragma GCC unroll 4
    for (int64_t n = 0; n < W; ++n) {
      const int32_t* from = codes + n * words + g * kPackedWords;
      __builtin_prefetch(from + W * words);
      const GroupCodes group = group_codes(from);
#pragma GCC unroll 4
      for (int64_t m = 0; m < X; ++m) {
        const int32_t* inputs = x.words + (m * groups + g) * kSplitWords;
        __m256i dots = _mm256_madd_epi16(group.of[0], load_integers(inputs));
#pragma GCC unroll 3
        for (int64_t i = 1; i < 4; ++i)
          dots = _mm256_add_epi32(dots, _mm256_madd_epi16(group.of[i], load_integers(inputs + i * kWordsAtATime)));
        sums[n][m] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), _mm256_set1_ps(x.scales[m * groups + g]), sums[n][m]);
      }
    }
  put_sums<X, W>(sums[0], y, shape.y_stride);
}

// Sixteen groups' values, each repeated four times: a group is four words of 4-bit codes.
HONE_AVX2 HONE_INLINE void spread_groups_avx2(const c10::BFloat16* groups, float* to) {
  __m256i lanes = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
  const __m256i two = _mm256_set1_epi32(2);
  const __m256 low = load_floats(groups), high = load_floats(groups + kAvx2Lanes);
#pragma GCC unroll 4
  for (int64_t i = 0; i < 4; ++i, to += kAvx2Lanes, lanes = _mm256_add_epi32(lanes, two)) {
    _mm256_storeu_ps(to, _mm256_permutevar8x32_ps(low, lanes));
    _mm256_storeu_ps(to + 4 * kAvx2Lanes, _mm256_permutevar8x32_ps(high, lanes));
  }
}

template <int64_t X, int64_t W>
HONE_AVX2 void byte_tile_avx2(const QuantizedActivations& x, const int32_t* codes, const c10::BFloat16* scales, float* y,
                              const SkinnyShape& shape) {
  __m256 sums[W][X] = {};
  const int64_t words = shape.width / 8, groups = padded_groups(shape.width);
  const __m256i nibbles = _mm256_set1_epi8(15);
  for (int64_t span = 0; span < shape.width; span += kSpanInputs) {
    float factors[W][kSpanInputs / 8];
#pragma GCC unroll 4
    for (int64_t n = 0; n < W; ++n) {
      const auto* from = scales + n * 2 * groups + span / kSpanInputs * 2 * kGroupSpan;
      __builtin_prefetch(from + W * 2 * groups);
      spread_groups_avx2(from, factors[n]);
      const __m256 lowest[2] = {load_floats(from + kGroupSpan), load_floats(from + kGroupSpan + kAvx2Lanes)};
#pragma GCC unroll 4
      for (int64_t m = 0; m < X; ++m) {
        const float* of_groups = x.sums + m * groups + span / kPackedGroup;
        sums[n][m] = _mm256_fmadd_ps(lowest[0], _mm256_loadu_ps(of_groups), sums[n][m]);
        sums[n][m] = _mm256_fmadd_ps(lowest[1], _mm256_loadu_ps(of_groups + kAvx2Lanes), sums[n][m]);
      }
    }
    const int64_t end = std::min(span + kSpanInputs, shape.width);
    for (int64_t word = span / 8; word < end / 8; word += kWordsAtATime) {
      // The even inputs of a block of 128 come first.
      const int64_t block = word / kPackedWords * kPackedBlock, input = block + word % kPackedWords * 4;
#pragma GCC unroll 4
      for (int64_t n = 0; n < W; ++n) {
        __builtin_prefetch(codes + (n + W) * words + word);
        const __m256i some = load_integers(codes + n * words + word), even = _mm256_and_si256(some, nibbles),
                      odd = _mm256_and_si256(_mm256_srli_epi16(some, 4), nibbles);
        const __m256 factor = _mm256_loadu_ps(factors[n] + word - span / 8);
#pragma GCC unroll 4
        for (int64_t m = 0; m < X; ++m) {
          const int8_t* inputs = x.codes + m * shape.width + input;
          const __m256i pairs = _mm256_add_epi16(byte_pair_dots(even, load_integers(inputs)),
                                                 byte_pair_dots(odd, load_integers(inputs + kPackedBlock / 2)));
          const __m256 scale = _mm256_mul_ps(factor, _mm256_loadu_ps(x.scales + m * words + word));
          sums[n][m] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums_of_pairs(pairs)), scale, sums[n][m]);
        }
      }
    }
  }
  put_sums<X, W>(sums[0], y, shape.y_stride);
}

}  // namespace

void split_outputs_avx2(const Int16Activations& x, const int32_t* codes, float* y, const SkinnyShape& shape) {
  for_tiles(shape, [&]<int64_t X, int64_t W>(int64_t m, int64_t n) {
    const Int16Activations rows{x.words + m * (shape.width / 2), x.scales + m * (shape.width / kSplitGroup)};
    split_tile_avx2<X, W>(rows, codes + n * (shape.width / 4), y + m * shape.y_stride + n, shape);
  });
}

void byte_outputs_avx2(const QuantizedActivations& x, const int32_t* codes, const c10::BFloat16* scales, float* y,
                       const SkinnyShape& shape) {
  const int64_t groups = padded_groups(shape.width);
  for_tiles(shape, [&]<int64_t X, int64_t W>(int64_t m, int64_t n) {
    const QuantizedActivations rows{x.codes + m * shape.width, x.scales + m * shape.width / 8, x.sums + m * groups};
    byte_tile_avx2<X, W>(rows, codes + n * (shape.width / 8), scales + n * 2 * groups, y + m * shape.y_stride + n, shape);
  });
}

}  // namespace hone::ops::cpu

#endif
