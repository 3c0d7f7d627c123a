// Integers and floats in registers of 32 bytes, for functions marked HONE_AVX2 on x86.
#pragma once
#if defined(__x86_64__)

#include "hone/base/x86_intrinsics.h"
#include "hone/ops/cpu/simd.h"

#define HONE_AVX2 __attribute__((target("arch=x86-64-v3")))

namespace hone::ops::cpu {

constexpr int64_t kAvx2Lanes = 8;

HONE_AVX2 HONE_INLINE __m256i load_integers(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }

// Products of unsigned bytes with signed ones, in pairs; exact while two of them fit into 16 bits.
HONE_AVX2 HONE_INLINE __m256i byte_pair_dots(__m256i codes, __m256i inputs) { return _mm256_maddubs_epi16(codes, inputs); }
// 16-bit numbers added in pairs.
HONE_AVX2 HONE_INLINE __m256i sums_of_pairs(__m256i numbers) { return _mm256_madd_epi16(numbers, _mm256_set1_epi16(1)); }

// Eight numbers of bfloat16.
HONE_AVX2 HONE_INLINE __m256 load_floats(const c10::BFloat16* from) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

HONE_AVX2 HONE_INLINE float sum_of_lanes(__m256 v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)),
               two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// The sums of X rows and W outputs, those of an output next to each other.
template <int64_t X, int64_t W>
HONE_AVX2 HONE_INLINE void put_sums(const __m256* sums, float* y, int64_t stride) {
#pragma GCC unroll 12
  for (int64_t i = 0; i < X * W; ++i) y[i % X * stride + i / X] = sum_of_lanes(sums[i]);
}

}  // namespace hone::ops::cpu

#endif
