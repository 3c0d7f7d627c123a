#include "hone/ops/cpu/gemm/bf16_mmla_gemm.h"

#include <algorithm>
#include <cstring>

#include "hone/base/error.h"
#include "hone/device/cpu_features.h"
#include "hone/ops/cpu/simd.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace hone::ops::cpu {

bool has_bf16_mmla() { return device::cpu_features().arm_bf16; }

namespace {

constexpr int64_t kMmlaInputs = 8;  // of a weight row at a time: one register

int64_t mmla_width(int64_t width) { return (width + kMmlaInputs - 1) / kMmlaInputs * kMmlaInputs; }

}  // namespace

int64_t mmla_packed_size(int64_t rows, int64_t width) { return (rows + 1) / 2 * 2 * mmla_width(width); }

void pack_for_mmla(const c10::BFloat16* x, c10::BFloat16* packed, int64_t rows, int64_t width) {
  for (int64_t first = 0; first < rows; first += 2)
    for (int64_t i = 0; i < mmla_width(width); i += 4)
      for (int64_t m = first; m < first + 2; ++m, packed += 4)
        for (int64_t k = 0; k < 4; ++k) packed[k] = m < rows && i + k < width ? x[m * width + i + k] : c10::BFloat16(0.0f);
}

#if defined(__aarch64__)

namespace {

#define HONE_MMLA __attribute__((target("arch=armv8.2-a+bf16")))
#define HONE_MMLA_INLINE __attribute__((always_inline, target("arch=armv8.2-a+bf16")))

constexpr int64_t kMmlaOutputs = 8, kMmlaPairs = 4;  // computed together: 16 accumulators, each 2 x 2

// Eight inputs of two outputs, as two operands of four each.
struct OutputPair {
  bfloat16x8_t first, second;
};
HONE_MMLA HONE_MMLA_INLINE inline OutputPair output_pair(bfloat16x8_t a, bfloat16x8_t b) {
  const uint64x2_t left = vreinterpretq_u64_bf16(a), right = vreinterpretq_u64_bf16(b);
  return {vreinterpretq_bf16_u64(vzip1q_u64(left, right)), vreinterpretq_bf16_u64(vzip2q_u64(left, right))};
}
HONE_MMLA HONE_MMLA_INLINE inline bfloat16x8_t eight_inputs(const c10::BFloat16* from, int64_t count) {
  bfloat16_t whole[kMmlaInputs] = {};
  std::memcpy(whole, from, static_cast<size_t>(std::min(count, kMmlaInputs)) * sizeof whole[0]);
  return vld1q_bf16(whole);
}

// y for `Pairs` pairs of rows and up to kMmlaOutputs outputs. Missing outputs of a tile repeat the last one and are not stored.
// The order of each sum depends only on the width.
template <int64_t Pairs>
HONE_MMLA void mmla_tile(const c10::BFloat16* packed, const c10::BFloat16* weight, int64_t outputs, int64_t rows, float* y,
                         const SkinnyShape& shape) {
  constexpr int64_t kTwos = kMmlaOutputs / 2;
  const int64_t pair_size = 2 * mmla_width(shape.width);
  const c10::BFloat16* lines[kMmlaOutputs];
  for (int64_t n = 0; n < kMmlaOutputs; ++n) lines[n] = weight + std::min(n, outputs - 1) * shape.width;
  float32x4_t sums[Pairs][kTwos] = {};
  const auto add = [&](int64_t i, auto load) HONE_MMLA_INLINE {
    OutputPair w[kTwos];
#pragma GCC unroll 8
    for (int64_t n = 0; n < kTwos; ++n) w[n] = output_pair(load(lines[2 * n]), load(lines[2 * n + 1]));
#pragma GCC unroll 8
    for (int64_t m = 0; m < Pairs; ++m) {
      const auto* x = reinterpret_cast<const bfloat16_t*>(packed + m * pair_size + 2 * i);
      const bfloat16x8_t first = vld1q_bf16(x), second = vld1q_bf16(x + 8);
#pragma GCC unroll 8
      for (int64_t n = 0; n < kTwos; ++n)
        sums[m][n] = vbfmmlaq_f32(vbfmmlaq_f32(sums[m][n], first, w[n].first), second, w[n].second);
    }
  };
  int64_t i = 0;
  for (; i + kMmlaInputs <= shape.width; i += kMmlaInputs) {
    if (i % 32 == 0)
#pragma GCC unroll 8
      for (int64_t n = 0; n < kMmlaOutputs; ++n) __builtin_prefetch(lines[n] + kMmlaOutputs * shape.width + i);
    add(i, [&](const c10::BFloat16* line) HONE_MMLA_INLINE { return vld1q_bf16(reinterpret_cast<const bfloat16_t*>(line + i)); });
  }
  if (i < shape.width)
    add(i, [&](const c10::BFloat16* line) HONE_MMLA_INLINE { return eight_inputs(line + i, shape.width - i); });
#pragma GCC unroll 8
  for (int64_t m = 0; m < Pairs; ++m)
#pragma GCC unroll 8
    for (int64_t n = 0; n < kTwos; ++n) {
      float four[4];
      vst1q_f32(four, sums[m][n]);
      for (int64_t j = 0; j < 4; ++j)
        if (2 * m + j / 2 < rows && 2 * n + j % 2 < outputs) y[(2 * m + j / 2) * shape.y_stride + 2 * n + j % 2] = four[j];
    }
}

}  // namespace

void mmla_outputs(const c10::BFloat16* packed, const c10::BFloat16* weight, float* y, const SkinnyShape& shape) {
  const int64_t pair_size = 2 * mmla_width(shape.width);
  for (int64_t n = 0; n < shape.count; n += kMmlaOutputs) {
    const int64_t outputs = std::min(kMmlaOutputs, shape.count - n);
    for (int64_t m = 0; m < shape.rows;) {
      const int64_t rows = shape.rows - m, pairs = std::min((rows + 1) / 2, kMmlaPairs);
      const auto tile = pairs >= kMmlaPairs ? mmla_tile<kMmlaPairs> : pairs >= 2 ? mmla_tile<2> : mmla_tile<1>;
      tile(packed + m / 2 * pair_size, weight + n * shape.width, outputs, rows, y + m * shape.y_stride + n, shape);
      m += pairs >= kMmlaPairs ? 2 * kMmlaPairs : pairs >= 2 ? 4 : 2;
    }
  }
}

#else

void mmla_outputs(const c10::BFloat16*, const c10::BFloat16*, float*, const SkinnyShape&) {
  fail_check("a processor with has_bf16_mmla()", __FILE__, __LINE__, "another");
}

#endif

}  // namespace hone::ops::cpu
