// int8_dot_gemm.h with Arm's dot-product instructions, on interleaved weights (interleaved_layout.h).
#if defined(__aarch64__)

#include <arm_neon.h>

#include "hone/ops/cpu/gemm/arm/interleaved_rows.h"
#include "hone/ops/cpu/gemm/int8_dot_gemm.h"
#include "hone/ops/cpu/gemm/packed_layout.h"

namespace hone::ops::cpu {
namespace {

// Instructions scheduled for this kind of core: 6 % faster on a Neoverse-N1.
#define HONE_NEON_DOTS __attribute__((target("arch=armv8.2-a+dotprod,tune=neoverse-n1")))

constexpr int64_t kGroupWords = 4, kGroupScales = 2 * kInterleavedOutputs, kGroupBytes = 64, kCodesAhead = 512;
constexpr int64_t kBlockGroups = kPackedBlock / kPackedGroup;

// 1.5 * 2^23: adding an integer to its bits adds it to its value. Sums that start there are floats without a conversion, which
// only one pipe executes.
constexpr float kFloatOfSums = 12582912.0f;
alignas(16) constexpr float kFourFloatsOfSums[4] = {kFloatOfSums, kFloatOfSums, kFloatOfSums, kFloatOfSums};

// The initial value of each group's sums, reloaded: a register copy would use a multiplier's slot, and load slots are free.
HONE_INLINE int32x4_t start_of_sums() {
  int32x4_t start;
  asm volatile("ldr %q0, %1" : "=w"(start) : "Q"(kFourFloatsOfSums));
  return start;
}

// Interleaved with zeros, which either pipe executes; shifts run on only one.
HONE_INLINE float32x4_t lower_as_floats(uint16x8_t bits) { return vreinterpretq_f32_u16(vzip1q_u16(vdupq_n_u16(0), bits)); }
HONE_INLINE float32x4_t upper_as_floats(uint16x8_t bits) { return vreinterpretq_f32_u16(vzip2q_u16(vdupq_n_u16(0), bits)); }
HONE_INLINE int8x16_t even_fields(uint8x16_t codes) { return vreinterpretq_s8_u8(vandq_u8(codes, vdupq_n_u8(15))); }
HONE_INLINE int8x16_t odd_fields(uint8x16_t codes) { return vreinterpretq_s8_u8(vshrq_n_u8(codes, 4)); }

// Quantizes sixteen inputs by their group's scale.
HONE_INLINE int8x16_t round_sixteen(const float* x, float by) {
  const auto near = [&](int64_t i) __attribute__((always_inline)) {
    return vreinterpretq_s16_f32(vaddq_f32(vmulq_n_f32(vld1q_f32(x + i), by), vdupq_n_f32(kFloatOfSums)));
  };
  return vuzp1q_s8(vreinterpretq_s8_s16(vuzp1q_s16(near(0), near(4))), vreinterpretq_s8_s16(vuzp1q_s16(near(8), near(12))));
}

HONE_NEON_DOTS int32_t sum_of(int8x16_t a, int8x16_t b) {
  const int8x16_t one = vdupq_n_s8(1);
  return vaddvq_s32(vdotq_s32(vdotq_s32(vdupq_n_s32(0), a, one), b, one));
}

// Four outputs of X rows. Groups are added one by one, as for many rows (panel_dots_sums.h).
template <int64_t X>
HONE_NEON_DOTS void four_outputs(const QuantizedActivations& x, const int32_t* codes, const c10::BFloat16* scales, float* y,
                                 const SkinnyShape& shape) {
  float32x4_t sums[X];
#pragma GCC unroll 4
  for (auto& sum : sums) sum = vdupq_n_f32(0);
  const int64_t padded = padded_groups(shape.width);
  const auto* bytes = reinterpret_cast<const uint8_t*>(codes);
  const auto* factors = reinterpret_cast<const uint16_t*>(scales);
  for (int64_t i = 0; i < shape.width; i += kPackedBlock) {
    __builtin_prefetch(reinterpret_cast<const uint8_t*>(factors) + kCodesAhead);
#pragma GCC unroll 4
    for (int64_t g = 0; g < kBlockGroups; ++g, bytes += kGroupBytes, factors += kGroupScales) {
      __builtin_prefetch(bytes + kCodesAhead);
      const uint8x16_t a = vld1q_u8(bytes), b = vld1q_u8(bytes + 16), c = vld1q_u8(bytes + 32), d = vld1q_u8(bytes + 48);
      const uint16x8_t both = vld1q_u16(factors);
      const float32x4_t factor = lower_as_floats(both), lowest = upper_as_floats(both);
#pragma GCC unroll 4
      for (int64_t m = 0; m < X; ++m) {
        const int8_t* inputs = x.codes + m * shape.width + i + g * 16;
        const int8x16_t even = vld1q_s8(inputs), odd = vld1q_s8(inputs + kPackedBlock / 2);
        int32x4_t dots = start_of_sums();
        dots = vdotq_laneq_s32(vdotq_laneq_s32(dots, even_fields(a), even, 0), odd_fields(a), odd, 0);
        dots = vdotq_laneq_s32(vdotq_laneq_s32(dots, even_fields(b), even, 1), odd_fields(b), odd, 1);
        dots = vdotq_laneq_s32(vdotq_laneq_s32(dots, even_fields(c), even, 2), odd_fields(c), odd, 2);
        dots = vdotq_laneq_s32(vdotq_laneq_s32(dots, even_fields(d), even, 3), odd_fields(d), odd, 3);
        const float32x4_t counts = vsubq_f32(vreinterpretq_f32_s32(dots), vdupq_n_f32(kFloatOfSums));
        sums[m] = vfmaq_n_f32(sums[m], lowest, x.sums[m * padded + i / kPackedGroup + g]);
        sums[m] = vfmaq_n_f32(sums[m], vmulq_f32(counts, factor), x.scales[(m * shape.width + i) / 8 + g * kGroupWords]);
      }
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

void quantize_activations(const float* x, const QuantizedActivations& rounded, int64_t rows, int64_t width) {
  const int64_t groups = padded_groups(width);
  for (int64_t m = 0; m < rows; ++m, x += width) {
    for (int64_t i = 0; i < width; i += kPackedGroup) {
      float32x4_t most = vdupq_n_f32(0), odd = vdupq_n_f32(0);
#pragma GCC unroll 8
      for (int64_t k = 0; k < kPackedGroup; k += 4) {
        const float32x4_t four = vld1q_f32(x + i + k);
        most = vmaxnmq_f32(most, vabsq_f32(four)), odd = vfmaq_n_f32(odd, four, 0.0f);
      }
      const float largest = vmaxnmvq_f32(most), scale = largest / 127 + vaddvq_f32(odd);  // non-finite values stay non-finite
      const float by = largest > 0 ? 127 / largest : 0;
      const int8x16_t first = round_sixteen(x + i, by), second = round_sixteen(x + i + 16, by);
      int8_t* even = rounded.codes + m * width + i / kPackedBlock * kPackedBlock + i % kPackedBlock / 2;
      vst1q_s8(even, vuzp1q_s8(first, second));
      vst1q_s8(even + kPackedBlock / 2, vuzp2q_s8(first, second));
      vst1q_f32(rounded.scales + (m * width + i) / 8, vdupq_n_f32(scale));
      rounded.sums[m * groups + i / kPackedGroup] = scale * static_cast<float>(sum_of(first, second));
    }
    for (int64_t g = width / kPackedGroup; g < groups; ++g) rounded.sums[m * groups + g] = 0;
  }
}

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
