// Sixteen floats a register, 32 of them.
#if defined(__x86_64__)

#include "hone/base/x86_intrinsics.h"
#include "hone/ops/cpu/gemm/row_kernels.h"
#include "hone/ops/cpu/scratch.h"
#include "hone/ops/cpu/simd.h"

#define HONE_AVX512 __attribute__((target("arch=x86-64-v4")))
#define HONE_ROWS HONE_AVX512

namespace hone::ops::cpu::avx512 {
namespace {

using Vector = F32x16;
constexpr int64_t kLanes = kVectorWidth, kMostRows = 8, kOutputStep = 6;
template <int64_t X>
constexpr int64_t kOutputsAtATime = X == 8   ? 3
                                    : X == 4 ? 6
                                    : X == 2 ? 8
                                             : 4;

HONE_AVX512 HONE_INLINE F32x16 lanes_at(const float* from) { return load(from, FullVector{}); }
HONE_AVX512 HONE_INLINE void put_lanes(float* to, F32x16 x) { store(to, x, FullVector{}); }
// The vectors of 32 inputs: of bfloat16 the even ones, then the odd ones.
HONE_AVX512 HONE_INLINE F32x16 first_of(const float* from) { return load(from, FullVector{}); }
HONE_AVX512 HONE_INLINE F32x16 second_of(const float* from) { return load(from + kVectorWidth, FullVector{}); }
HONE_AVX512 HONE_INLINE F32x16 first_of(const c10::BFloat16* from) {
  I32x16 pairs;
  std::memcpy(&pairs, from, sizeof pairs);
  return reinterpret_cast<F32x16>(pairs << 16);
}
HONE_AVX512 HONE_INLINE F32x16 second_of(const c10::BFloat16* from) {
  return reinterpret_cast<F32x16>(_mm512_maskz_loadu_epi16(0xAAAAAAAA, from));
}
HONE_AVX512 HONE_INLINE F32x16 first_of(const c10::Half* from) {
  return reinterpret_cast<F32x16>(_mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
}
HONE_AVX512 HONE_INLINE F32x16 second_of(const c10::Half* from) { return first_of(from + kVectorWidth); }

HONE_AVX512 HONE_INLINE F32x16 multiply_add(F32x16 a, F32x16 b, F32x16 sum) {
  return reinterpret_cast<F32x16>(
      _mm512_fmadd_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(sum)));
}

HONE_AVX512 HONE_INLINE void keep_in_register(F32x16& x) { asm("" : "+v"(x)); }

// horizontal_sum() of eight vectors, to[0] to to[7]: each addition serves several of them.
HONE_AVX512 HONE_INLINE void eight_horizontal_sums(const F32x16* v, float* (&to)[8]) {
  F32x16 a[4], b[2];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    a[i] = __builtin_shufflevector(v[i], v[4 + i], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
           __builtin_shufflevector(v[i], v[4 + i], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i)
    b[i] = __builtin_shufflevector(a[i], a[2 + i], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
           __builtin_shufflevector(a[i], a[2 + i], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  const F32x16 pairs = __builtin_shufflevector(b[0], b[1], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
                       __builtin_shufflevector(b[0], b[1], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  const F32x16 sums = pairs + __builtin_shufflevector(pairs, pairs, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  alignas(64) float all[kVectorWidth];
  std::memcpy(all, &sums, sizeof sums);
  *to[0] = all[0], *to[1] = all[2], *to[4] = all[4], *to[5] = all[6];
  *to[2] = all[8], *to[3] = all[10], *to[6] = all[12], *to[7] = all[14];
}

template <int64_t X, int64_t W>
HONE_AVX512 HONE_INLINE void put_sums(const F32x16* sums, float* y, int64_t stride) {
  if constexpr (X * W % 8 == 0) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < X * W; i += 8) {
      float* to[8];
#pragma GCC unroll 8
      for (int64_t j = 0; j < 8; ++j) to[j] = y + (i + j) % X * stride + (i + j) / X;
      eight_horizontal_sums(sums + i, to);
    }
  } else {
#pragma GCC unroll 8
    for (int64_t i = 0; i < X * W; ++i) y[i % X * stride + i / X] = horizontal_sum(sums[i]);
  }
}

}  // namespace

#include "hone/ops/cpu/gemm/x86/row_kernels.inl"

}  // namespace hone::ops::cpu::avx512

#undef HONE_ROWS
#undef HONE_AVX512

#endif
