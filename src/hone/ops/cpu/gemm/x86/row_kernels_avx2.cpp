// Eight floats a register, 16 of them.
#if defined(__x86_64__)

#include "hone/ops/cpu/gemm/row_kernels.h"
#include "hone/ops/cpu/gemm/x86/avx2.h"
#include "hone/ops/cpu/scratch.h"

#define HONE_ROWS HONE_AVX2

namespace hone::ops::cpu::avx2 {
namespace {

using Vector = __m256;
constexpr int64_t kLanes = kAvx2Lanes, kMostRows = 4, kOutputStep = 12;
template <int64_t X>
constexpr int64_t kOutputsAtATime = X == 4 ? 3 : 4;

HONE_AVX2 HONE_INLINE __m256 lanes_at(const float* from) { return _mm256_loadu_ps(from); }
HONE_AVX2 HONE_INLINE void put_lanes(float* to, __m256 x) { _mm256_storeu_ps(to, x); }
// The vectors of 16 inputs: of bfloat16 the even ones, then the odd ones.
HONE_AVX2 HONE_INLINE __m256 first_of(const float* from) { return lanes_at(from); }
HONE_AVX2 HONE_INLINE __m256 second_of(const float* from) { return lanes_at(from + kLanes); }
HONE_AVX2 HONE_INLINE __m256i pairs_at(const c10::BFloat16* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
HONE_AVX2 HONE_INLINE __m256 first_of(const c10::BFloat16* from) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(pairs_at(from), 16));
}
HONE_AVX2 HONE_INLINE __m256 second_of(const c10::BFloat16* from) {
  return _mm256_castsi256_ps(_mm256_and_si256(pairs_at(from), _mm256_set1_epi32(static_cast<int32_t>(0xFFFF0000))));
}
HONE_AVX2 HONE_INLINE __m256 first_of(const c10::Half* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
HONE_AVX2 HONE_INLINE __m256 second_of(const c10::Half* from) { return first_of(from + kLanes); }

HONE_AVX2 HONE_INLINE __m256 multiply_add(__m256 a, __m256 b, __m256 sum) { return _mm256_fmadd_ps(a, b, sum); }
HONE_AVX2 HONE_INLINE void keep_in_register(__m256& x) { asm("" : "+x"(x)); }

}  // namespace

#include "hone/ops/cpu/gemm/x86/row_kernels.inl"

}  // namespace hone::ops::cpu::avx2

#undef HONE_ROWS

#endif
