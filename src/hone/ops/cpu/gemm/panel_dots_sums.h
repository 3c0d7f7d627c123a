// Scales the integer sums of a group in panel_dots_kernels.h and adds them to the float32 sums.
#pragma once
#include <arm_neon.h>

#include "hone/ops/cpu/simd.h"

namespace hone::ops::cpu {

// A row of sums: twelve columns in three registers, as separate variables like in arm/panel_gemm_neon.cpp.
struct DotRow {
  int32x4_t a, b, c;
};

template <int Lane>
HONE_INLINE void put_scaled(const DotRow& row, float32x4_t scales, float* to) {
  vst1q_f32(to, vfmaq_laneq_f32(vld1q_f32(to), vcvtq_f32_s32(row.a), scales, Lane));
  vst1q_f32(to + 4, vfmaq_laneq_f32(vld1q_f32(to + 4), vcvtq_f32_s32(row.b), scales, Lane));
  vst1q_f32(to + 8, vfmaq_laneq_f32(vld1q_f32(to + 8), vcvtq_f32_s32(row.c), scales, Lane));
}

// 1.5 * 2^23: adding an integer to its bits adds it to its value. Sums that start there are floats without a conversion.
constexpr float kFloatOfDots = 12582912.0f;
HONE_INLINE int32x4_t bits_of_dots() { return vreinterpretq_s32_f32(vdupq_n_f32(kFloatOfDots)); }

struct ColumnScales {
  float32x4_t a, b, c;
};
HONE_INLINE ColumnScales load_columns(const float* from) { return {vld1q_f32(from), vld1q_f32(from + 4), vld1q_f32(from + 8)}; }

template <int Lane>
HONE_INLINE float32x4_t with_group(float32x4_t sum, int32x4_t dots, float32x4_t factor, float32x4_t lowest, float32x4_t scales,
                                   float32x4_t sums) {
  const float32x4_t value = vmulq_f32(vsubq_f32(vreinterpretq_f32_s32(dots), vdupq_n_f32(kFloatOfDots)), factor);
  return vfmaq_laneq_f32(vfmaq_laneq_f32(sum, lowest, sums, Lane), value, scales, Lane);
}
template <int Lane>
HONE_INLINE void put_group(const DotRow& row, const ColumnScales& factor, const ColumnScales& lowest, float32x4_t scales,
                           float32x4_t sums, float* to) {
  vst1q_f32(to, with_group<Lane>(vld1q_f32(to), row.a, factor.a, lowest.a, scales, sums));
  vst1q_f32(to + 4, with_group<Lane>(vld1q_f32(to + 4), row.b, factor.b, lowest.b, scales, sums));
  vst1q_f32(to + 8, with_group<Lane>(vld1q_f32(to + 8), row.c, factor.c, lowest.c, scales, sums));
}

}  // namespace hone::ops::cpu
