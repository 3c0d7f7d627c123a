// int16_dot_gemm.h with Arm's dot-product instructions, on interleaved weights (interleaved_layout.h). A group's words are the
// high bytes of its inputs, then the low ones, in the order of its weights' bytes: a word has one input of every sixteen.
#if defined(__aarch64__)

#include <arm_neon.h>

#include "hone/ops/cpu/gemm/arm/interleaved_rows.h"
#include "hone/ops/cpu/gemm/int16_dot_gemm.h"
#include "hone/ops/cpu/gemm/packed_kernels.h"

namespace hone::ops::cpu {
namespace {

constexpr int64_t kGroupInputBytes = 2 * kSplitGroup;

// Quantizes sixteen inputs by their group's scale.
struct SplitCounts {
  int8x16_t high, low;
};
SplitCounts split_sixteen(const float* x, float by) {
  int16x8_t high[2], low[2];
  for (int half = 0; half < 2; ++half) {
    const int32x4_t a = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + half * 8), by)),
                    b = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + half * 8 + 4), by));
    const int16x8_t counts = vcombine_s16(vmovn_s32(a), vmovn_s32(b));
    high[half] = vrshrq_n_s16(counts, 7);
    low[half] = vsubq_s16(counts, vshlq_n_s16(high[half], 7));
  }
  return {vcombine_s8(vmovn_s16(high[0]), vmovn_s16(high[1])), vcombine_s8(vmovn_s16(low[0]), vmovn_s16(low[1]))};
}

}  // namespace

void quantize_int16(const float* x, const Int16Activations& split, int64_t rows, int64_t width) {
  auto* bytes = reinterpret_cast<int8_t*>(split.words);
  for (int64_t first = 0; first < rows * width; first += kSplitGroup, bytes += kGroupInputBytes) {
    float32x4_t most = vdupq_n_f32(0), odd = vdupq_n_f32(0);
    for (int64_t i = 0; i < kSplitGroup; i += 4) {
      const float32x4_t four = vld1q_f32(x + first + i);
      most = vmaxnmq_f32(most, vabsq_f32(four)), odd = vfmaq_n_f32(odd, four, 0.0f);
    }
    const float largest = vmaxnmvq_f32(most);
    split.scales[first / kSplitGroup] = largest / kLargestCount + vaddvq_f32(odd);  // non-finite values stay non-finite
    const float by = largest > 0 ? kLargestCount / largest : 0;
    const auto a = split_sixteen(x + first, by), b = split_sixteen(x + first + 16, by);
    const auto c = split_sixteen(x + first + 32, by), d = split_sixteen(x + first + 48, by);
    vst4q_s8(bytes, {a.high, b.high, c.high, d.high});
    vst4q_s8(bytes + kSplitGroup, {a.low, b.low, c.low, d.low});
  }
}

void dequantize_int16(const Int16Activations& split, float* x, int64_t rows, int64_t width) {
  const auto* bytes = reinterpret_cast<const int8_t*>(split.words);
  for (int64_t group = 0; group < rows * width / kSplitGroup; ++group, x += kSplitGroup, bytes += kGroupInputBytes)
    for (int64_t i = 0; i < kSplitGroup; ++i) {
      const int64_t at = i % 16 * 4 + i / 16;
      x[i] = static_cast<float>(bytes[at] * kHighCounts + bytes[kSplitGroup + at]) * split.scales[group];
    }
}

namespace {

#define HONE_SPLIT_DOTS __attribute__((target("arch=armv8.2-a+dotprod")))

constexpr int64_t kBytesAhead = 2048;

// Four outputs of X rows, interleaved (interleaved_layout.h). Groups are added one by one, as for many rows
// (panel_dots_sums.h).
template <int64_t X>
HONE_SPLIT_DOTS void four_split_outputs(const Int16Activations& x, const int8_t* codes, float* y, const SkinnyShape& shape) {
  float32x4_t sums[X];
#pragma GCC unroll 4
  for (auto& sum : sums) sum = vdupq_n_f32(0);
  const auto* bytes = reinterpret_cast<const int8_t*>(x.words);
  const int64_t groups = shape.width / kSplitGroup;
  for (int64_t g = 0; g < groups; ++g) {
    int32x4_t high[X], low[X];
#pragma GCC unroll 4
    for (int64_t m = 0; m < X; ++m) high[m] = low[m] = vdupq_n_s32(0);
#pragma GCC unroll 4
    for (int64_t i = 0; i < kSplitGroup; i += 16, codes += 64) {
      __builtin_prefetch(codes + kBytesAhead);
      const int8x16_t zero = vdupq_n_s8(-128);  // kInt8Zero: converts unsigned codes to signed ones
      const int8x16_t a = veorq_s8(vld1q_s8(codes), zero), b = veorq_s8(vld1q_s8(codes + 16), zero);
      const int8x16_t c = veorq_s8(vld1q_s8(codes + 32), zero), d = veorq_s8(vld1q_s8(codes + 48), zero);
#pragma GCC unroll 4
      for (int64_t m = 0; m < X; ++m) {
        const int8_t* inputs = bytes + (m * groups + g) * kGroupInputBytes + i;
        const int8x16_t above = vld1q_s8(inputs), below = vld1q_s8(inputs + kSplitGroup);
        high[m] = vdotq_laneq_s32(vdotq_laneq_s32(high[m], a, above, 0), b, above, 1);
        low[m] = vdotq_laneq_s32(vdotq_laneq_s32(low[m], a, below, 0), b, below, 1);
        high[m] = vdotq_laneq_s32(vdotq_laneq_s32(high[m], c, above, 2), d, above, 3);
        low[m] = vdotq_laneq_s32(vdotq_laneq_s32(low[m], c, below, 2), d, below, 3);
      }
    }
#pragma GCC unroll 4
    for (int64_t m = 0; m < X; ++m)
      sums[m] = vfmaq_n_f32(sums[m], vcvtq_f32_s32(vaddq_s32(vshlq_n_s32(high[m], 7), low[m])), x.scales[m * groups + g]);
  }
#pragma GCC unroll 4
  for (int64_t m = 0; m < X; ++m) vst1q_f32(y + m * shape.y_stride, sums[m]);
}

void split_fours(const Int16Activations& x, const int8_t* codes, float* y, const SkinnyShape& shape) {
  for_row_tiles(shape.rows, [&]<int64_t X>(int64_t m) {
    const Int16Activations rows{x.words + m * (shape.width / 2), x.scales + m * (shape.width / kSplitGroup)};
    for (int64_t n = 0; n < shape.count; n += kInterleavedOutputs)
      four_split_outputs<X>(rows, codes + n * shape.width, y + m * shape.y_stride + n, shape);
  });
}

}  // namespace

void split_outputs_int8(const Int16Activations& x, const int32_t* codes, const float* scales, float* y,
                        const SkinnyShape& shape) {
  const int64_t words = shape.width / 4;
  const auto bytes = [](const int32_t* from) { return reinterpret_cast<const int8_t*>(from); };
  for_fours(
      shape, y, [&](const SkinnyShape& fours) { split_fours(x, bytes(codes), y, fours); },
      [&](int64_t first, int64_t lines, float* to, const SkinnyShape& four) {
        split_fours(x, bytes(interleaved_rest(codes + first * words, lines, words, place_of_word).data()), to, four);
      });
  scale_outputs(y, scales, shape.rows, shape.count, shape.y_stride);
}

}  // namespace hone::ops::cpu

#endif
