#include "hone/ops/cpu/split_dots.h"

#include <algorithm>
#include <cmath>

#include "hone/base/error.h"
#include "hone/device/cpu_features.h"
#include "hone/ops/cpu/packed_layout.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace hone::ops::cpu {

void split_rows(const float* x, const SplitRows& split, int64_t rows, int64_t width) {
  constexpr int64_t kFields = kSplitGroup / kPackedWords;
  constexpr float kLargest = 127 * kHighCounts;
  for (int64_t first = 0; first < rows * width; first += kSplitGroup) {
    float largest = 0, odd = 0;
    for (int64_t i = 0; i < kSplitGroup; ++i) largest = std::max(largest, std::abs(x[first + i])), odd += x[first + i] * 0.0f;
    split.scales[first / kSplitGroup] = largest / kLargest + odd;  // what is not finite stays so
    const float by = largest > 0 ? kLargest / largest : 0;
    for (int64_t i = 0; i < kSplitGroup; ++i) {
      const auto counts = static_cast<int32_t>(std::lrint(x[first + i] * by)), high = (counts + kHighCounts / 2) >> 7;
      const int64_t to = first + i % kPackedWords * kFields + i / kPackedWords;
      split.high[to] = static_cast<int8_t>(high);
      split.low[to] = static_cast<int8_t>(counts - high * kHighCounts);
    }
  }
}

#if defined(__aarch64__)

bool has_split_dots() { return device::cpu_features().byte_dots; }

namespace {

#define HONE_SPLIT_DOTS __attribute__((target("arch=armv8.2-a+dotprod")))

template <int64_t X, int64_t W>
HONE_SPLIT_DOTS void split_tile(const SplitRows& x, const int8_t* codes, float* y, const SmallShape& shape) {
  float32x4_t sums[X][W] = {};
  const int64_t width = shape.width, groups = width / kSplitGroup;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t at = g * kSplitGroup;
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) {
      __builtin_prefetch(codes + (n + W) * width + at);
      const int8_t* from = codes + n * width + at;
      const int8x16_t zero = vdupq_n_s8(-128);  // kInt8Zero: by it unsigned codes become signed ones
      const int8x16_t a = veorq_s8(vld1q_s8(from), zero), b = veorq_s8(vld1q_s8(from + 16), zero);
      const int8x16_t c = veorq_s8(vld1q_s8(from + 32), zero), d = veorq_s8(vld1q_s8(from + 48), zero);
#pragma GCC unroll 8
      for (int64_t m = 0; m < X; ++m) {
        const auto dots = [&](const int8_t* bytes) __attribute__((always_inline, target("arch=armv8.2-a+dotprod"))) {
          const int32x4_t first = vdotq_s32(vdotq_s32(vdupq_n_s32(0), a, vld1q_s8(bytes)), b, vld1q_s8(bytes + 16));
          return vdotq_s32(vdotq_s32(first, c, vld1q_s8(bytes + 32)), d, vld1q_s8(bytes + 48));
        };
        const int32x4_t all = vaddq_s32(vshlq_n_s32(dots(x.high + m * width + at), 7), dots(x.low + m * width + at));
        sums[m][n] = vfmaq_n_f32(sums[m][n], vcvtq_f32_s32(all), x.scales[m * groups + g]);
      }
    }
  }
#pragma GCC unroll 8
  for (int64_t m = 0; m < X; ++m)
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) y[m * shape.y_stride + n] = vaddvq_f32(sums[m][n]);
}

}  // namespace

void split_outputs_int8(const SplitRows& x, const int32_t* codes, const float* scales, float* y, const SmallShape& shape) {
  const auto* bytes = reinterpret_cast<const int8_t*>(codes);
  for_tiles(shape, [&]<int64_t X, int64_t W>(int64_t m, int64_t n) {
    const SplitRows rows{x.high + m * shape.width, x.low + m * shape.width, x.scales + m * (shape.width / kSplitGroup)};
    split_tile<X, W>(rows, bytes + n * shape.width, y + m * shape.y_stride + n, shape);
  });
  for (int64_t m = 0; m < shape.rows; ++m)
    for (int64_t n = 0; n < shape.count; ++n) y[m * shape.y_stride + n] *= scales[n];
}

#else

bool has_split_dots() { return false; }

void split_outputs_int8(const SplitRows&, const int32_t*, const float*, float*, const SmallShape&) {
  HONE_CHECK(false, "asked only where has_split_dots()");
}

#endif

}  // namespace hone::ops::cpu
