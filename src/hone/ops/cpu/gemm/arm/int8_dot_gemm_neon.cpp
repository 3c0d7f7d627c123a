// int8_dot_int4_weights with Arm's dot products, on interleaved weights (interleaved_layout.h).
#if defined(__aarch64__)

#include <arm_neon.h>

#include "hone/ops/cpu/gemm/arm/interleaved_rows.h"
#include "hone/ops/cpu/gemm/int8_dot_gemm.h"
#include "hone/ops/cpu/gemm/packed_layout.h"

namespace hone::ops::cpu {
namespace {

#define HONE_NEON_DOTS __attribute__((target("arch=armv8.2-a+dotprod")))

constexpr int64_t kGroupWords = 4, kGroupScales = 2 * kInterleavedOutputs, kGroupsAhead = 32;

// 1.5 * 2^23: an integer added to its bits is added to its value. Sums that start there are floats without a conversion, which
// one pipe alone does.
constexpr float kFloatOfSums = 12582912.0f;

HONE_INLINE float32x4_t upper_halves(uint16x4_t bits) { return vreinterpretq_f32_u32(vshll_n_u16(bits, 16)); }
HONE_INLINE int8x16_t even_fields(uint8x16_t codes) { return vreinterpretq_s8_u8(vandq_u8(codes, vdupq_n_u8(15))); }
HONE_INLINE int8x16_t odd_fields(uint8x16_t codes) { return vreinterpretq_s8_u8(vshrq_n_u8(codes, 4)); }

// Four outputs of X rows. A sum takes its groups one by one, as those of many rows do (panel_dots_sums.h).
template <int64_t X>
HONE_NEON_DOTS void four_outputs(const QuantizedActivations& x, const int32_t* codes, const c10::BFloat16* scales, float* y,
                                 const SkinnyShape& shape) {
  float32x4_t sums[X];
#pragma GCC unroll 4
  for (auto& sum : sums) sum = vdupq_n_f32(0);
  const int64_t padded = padded_groups(shape.width);
  const auto* bytes = reinterpret_cast<const uint8_t*>(codes);
  const auto* factors = reinterpret_cast<const uint16_t*>(scales);
  for (int64_t g = 0; g < shape.width / kPackedGroup; ++g, bytes += 64, factors += kGroupScales) {
    __builtin_prefetch(bytes + 64 * kGroupsAhead);
    __builtin_prefetch(factors + kGroupScales * kGroupsAhead);
    const uint8x16_t a = vld1q_u8(bytes), b = vld1q_u8(bytes + 16), c = vld1q_u8(bytes + 32), d = vld1q_u8(bytes + 48);
    const uint16x8_t both = vld1q_u16(factors);
    const float32x4_t factor = upper_halves(vget_low_u16(both)), lowest = upper_halves(vget_high_u16(both));
    const int64_t even_at = g / kGroupWords * kPackedBlock + g % kGroupWords * 16;
#pragma GCC unroll 4
    for (int64_t m = 0; m < X; ++m) {
      const int8_t* inputs = x.codes + m * shape.width + even_at;
      const int8x16_t even = vld1q_s8(inputs), odd = vld1q_s8(inputs + kPackedBlock / 2);
      int32x4_t first = vreinterpretq_s32_f32(vdupq_n_f32(kFloatOfSums)), second = vdupq_n_s32(0);
      first = vdotq_laneq_s32(first, even_fields(a), even, 0), second = vdotq_laneq_s32(second, odd_fields(a), odd, 0);
      first = vdotq_laneq_s32(first, even_fields(b), even, 1), second = vdotq_laneq_s32(second, odd_fields(b), odd, 1);
      first = vdotq_laneq_s32(first, even_fields(c), even, 2), second = vdotq_laneq_s32(second, odd_fields(c), odd, 2);
      first = vdotq_laneq_s32(first, even_fields(d), even, 3), second = vdotq_laneq_s32(second, odd_fields(d), odd, 3);
      const float32x4_t dots = vsubq_f32(vreinterpretq_f32_s32(vaddq_s32(first, second)), vdupq_n_f32(kFloatOfSums));
      sums[m] = vfmaq_n_f32(sums[m], lowest, x.sums[m * padded + g]);
      sums[m] = vfmaq_n_f32(sums[m], vmulq_f32(dots, factor), x.scales[m * (shape.width / 8) + g * kGroupWords]);
    }
  }
#pragma GCC unroll 4
  for (int64_t m = 0; m < X; ++m) vst1q_f32(y + m * shape.y_stride, sums[m]);
}

void whole_fours(const QuantizedActivations& x, const int32_t* codes, const c10::BFloat16* scales, float* y,
                 const SkinnyShape& shape) {
  const int64_t padded = padded_groups(shape.width), words = shape.width / 8;
  for_row_tiles(shape.rows, [&]<int64_t X>(int64_t m) {
    const QuantizedActivations rows{x.codes + m * shape.width, x.scales + m * words, x.sums + m * padded};
    for (int64_t n = 0; n < shape.count; n += kInterleavedOutputs)
      four_outputs<X>(rows, codes + n * words, scales + n * 2 * padded, y + m * shape.y_stride + n, shape);
  });
}

}  // namespace

void int8_dot_int4_weights(const QuantizedActivations& x, const int32_t* codes, const c10::BFloat16* scales, float* y,
                           const SkinnyShape& shape) {
  const int64_t words = shape.width / 8, own = 2 * padded_groups(shape.width);
  for_fours(
      shape, y, [&](const SkinnyShape& fours) { whole_fours(x, codes, scales, y, fours); },
      [&](int64_t first, int64_t lines, float* to, const SkinnyShape& four) {
        whole_fours(x, interleaved_rest(codes + first * words, lines, words, place_of_word).data(),
                    interleaved_rest(scales + first * own, lines, own, place_of_scale).data(), to, four);
      });
}

}  // namespace hone::ops::cpu

#endif
