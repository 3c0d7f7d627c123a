// Sums of products, the core of every matrix kernel: sixteen factors at a time, accumulated in registers.
#pragma once
#include "hone/ops/cpu/simd.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace hone::ops::cpu {

#if defined(__aarch64__)

// A register holds four floats, and GCC passes a wider vector between loop iterations through memory. So a factor is four
// registers and a sum is one: a dozen sums keep both multipliers busy.
struct DotOperand {
  float32x4_t a, b, c, d;
};
struct DotAccumulator {
  float32x4_t four;
};

HONE_INLINE DotOperand load_factor(const float* from, FullVector) {
  return {vld1q_f32(from), vld1q_f32(from + 4), vld1q_f32(from + 8), vld1q_f32(from + 12)};
}
HONE_INLINE DotOperand load_factor(const c10::BFloat16* from, FullVector) {
  const auto* bits = reinterpret_cast<const uint16_t*>(from);
  const uint16x8_t zero = vdupq_n_u16(0), low = vld1q_u16(bits), high = vld1q_u16(bits + 8);
  return {vreinterpretq_f32_u16(vzip1q_u16(zero, low)), vreinterpretq_f32_u16(vzip2q_u16(zero, low)),
          vreinterpretq_f32_u16(vzip1q_u16(zero, high)), vreinterpretq_f32_u16(vzip2q_u16(zero, high))};
}
HONE_INLINE DotOperand load_factor(const c10::Half* from, FullVector) {
  const auto* bits = reinterpret_cast<const uint16_t*>(from);
  const float16x8_t low = vreinterpretq_f16_u16(vld1q_u16(bits)), high = vreinterpretq_f16_u16(vld1q_u16(bits + 8));
  return {vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low), vcvt_f32_f16(vget_low_f16(high)), vcvt_high_f32_f16(high)};
}
template <class T>
HONE_INLINE DotOperand load_factor(const T* from, VectorTail extent) {
  T whole[kVectorWidth];
  std::memset(static_cast<void*>(whole), 0, sizeof whole);
  std::memcpy(static_cast<void*>(whole), from, static_cast<size_t>(extent.count) * sizeof(T));
  return load_factor(whole, FullVector{});
}

HONE_INLINE void store_factor(float* to, const DotOperand& x, FullVector) {
  vst1q_f32(to, x.a), vst1q_f32(to + 4, x.b), vst1q_f32(to + 8, x.c), vst1q_f32(to + 12, x.d);
}
HONE_INLINE void store_factor(float* to, const DotOperand& x, VectorTail extent) {
  std::memcpy(to, &x, static_cast<size_t>(extent.count) * sizeof(float));
}

HONE_INLINE void accumulate(DotAccumulator& sum, const DotOperand& x, const DotOperand& y) {
  sum.four = vfmaq_f32(vfmaq_f32(vfmaq_f32(vfmaq_f32(sum.four, x.a, y.a), x.b, y.b), x.c, y.c), x.d, y.d);
}
HONE_INLINE float horizontal_sum(const DotAccumulator& sum) { return (sum.four[0] + sum.four[2]) + (sum.four[1] + sum.four[3]); }

#else

using DotOperand = F32x16;
using DotAccumulator = F32x16;

template <class T, class Extent>
HONE_INLINE DotOperand load_factor(const T* from, Extent extent) {
  return load(from, extent);
}
template <class Extent>
HONE_INLINE void store_factor(float* to, DotOperand x, Extent extent) {
  store(to, x, extent);
}
HONE_INLINE void accumulate(DotAccumulator& sum, DotOperand x, DotOperand y) { sum += x * y; }

#endif

}  // namespace hone::ops::cpu
