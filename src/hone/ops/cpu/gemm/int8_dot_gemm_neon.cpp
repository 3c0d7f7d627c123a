// int8_dot_int4_weights with Arm's dot products. A register of codes holds one group, so its sums share a factor.
#if defined(__aarch64__)

#include <arm_neon.h>

#include <algorithm>

#include "hone/ops/cpu/gemm/int8_dot_gemm.h"
#include "hone/ops/cpu/gemm/packed_layout.h"

namespace hone::ops::cpu {
namespace {

#define HONE_NEON_DOTS __attribute__((target("arch=armv8.2-a+dotprod")))

// 1.5 * 2^23: an integer added to its bits is added to its value. Sums that start there are floats without a conversion, which
// one pipe alone does.
constexpr float kFloatOfSums = 12582912.0f;

HONE_INLINE float32x4_t widened(const c10::BFloat16* from) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(reinterpret_cast<const uint16_t*>(from)), 16));
}

// The scales of four groups, each of which stands there four times.
HONE_INLINE float32x4_t input_scales(const float* from) {
  return vuzp1q_f32(vuzp1q_f32(vld1q_f32(from), vld1q_f32(from + 4)), vuzp1q_f32(vld1q_f32(from + 8), vld1q_f32(from + 12)));
}

// One block of an output against one of a row: four groups of 32 inputs, each with the product of both scales.
HONE_NEON_DOTS HONE_INLINE float32x4_t add_block(float32x4_t sum, const uint8x16_t (&codes)[4], const int8_t* x,
                                                 float32x4_t factors) {
  const auto group = [&](int i) __attribute__((always_inline, target("arch=armv8.2-a+dotprod"))) {
    const int8x16_t even = vreinterpretq_s8_u8(vandq_u8(codes[i], vdupq_n_u8(15))),
                    odd = vreinterpretq_s8_u8(vshrq_n_u8(codes[i], 4));
    const int32x4_t from = vreinterpretq_s32_f32(vdupq_n_f32(kFloatOfSums));
    const int32x4_t dots = vdotq_s32(vdotq_s32(from, even, vld1q_s8(x + i * 16)), odd, vld1q_s8(x + kPackedBlock / 2 + i * 16));
    return vsubq_f32(vreinterpretq_f32_s32(dots), vdupq_n_f32(kFloatOfSums));
  };
  sum = vfmaq_laneq_f32(sum, group(0), factors, 0);
  sum = vfmaq_laneq_f32(sum, group(1), factors, 1);
  sum = vfmaq_laneq_f32(sum, group(2), factors, 2);
  return vfmaq_laneq_f32(sum, group(3), factors, 3);
}

template <int64_t X, int64_t W>
HONE_NEON_DOTS void neon_byte_tile(const QuantizedActivations& x, const int32_t* codes, const c10::BFloat16* scales, float* y,
                                   const SkinnyShape& shape) {
  float32x4_t sums[W][X] = {};
  const int64_t words = shape.width / 8, groups = padded_groups(shape.width);
  for (int64_t i = 0; i < shape.width; i += kPackedBlock) {
    const int64_t group = i / kPackedGroup, span = group / kGroupSpan * 2 * kGroupSpan + group % kGroupSpan;
    float32x4_t by_input[X];
#pragma GCC unroll 8
    for (int64_t m = 0; m < X; ++m) by_input[m] = input_scales(x.scales + m * words + i / 8);
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) {
      const auto* from = reinterpret_cast<const uint8_t*>(codes + n * words + i / 8);
      __builtin_prefetch(codes + (n + W) * words + i / 8);
      const uint8x16_t some[4] = {vld1q_u8(from), vld1q_u8(from + 16), vld1q_u8(from + 32), vld1q_u8(from + 48)};
      const auto* own = scales + n * 2 * groups + span;
      const float32x4_t factors = widened(own), lowest = widened(own + kGroupSpan);
#pragma GCC unroll 8
      for (int64_t m = 0; m < X; ++m) {
        sums[n][m] = vfmaq_f32(sums[n][m], lowest, vld1q_f32(x.sums + m * groups + group));
        sums[n][m] = add_block(sums[n][m], some, x.codes + m * shape.width + i, vmulq_f32(factors, by_input[m]));
      }
    }
  }
#pragma GCC unroll 8
  for (int64_t n = 0; n < W; ++n)
#pragma GCC unroll 8
    for (int64_t m = 0; m < X; ++m) y[m * shape.y_stride + n] = vaddvq_f32(sums[n][m]);
}

}  // namespace

void int8_dot_int4_weights(const QuantizedActivations& x, const int32_t* codes, const c10::BFloat16* scales, float* y,
                           const SkinnyShape& shape) {
  const int64_t groups = padded_groups(shape.width);
  for_tiles(shape, [&]<int64_t X, int64_t W>(int64_t m, int64_t n) {
    const QuantizedActivations rows{x.codes + m * shape.width, x.scales + m * shape.width / 8, x.sums + m * groups};
    neon_byte_tile<X, W>(rows, codes + n * (shape.width / 8), scales + n * 2 * groups, y + m * shape.y_stride + n, shape);
  });
}

}  // namespace hone::ops::cpu

#endif
