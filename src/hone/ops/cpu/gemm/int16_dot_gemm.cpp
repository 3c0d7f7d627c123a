#include "hone/ops/cpu/gemm/int16_dot_gemm.h"

#include "hone/device/cpu_features.h"
#include "hone/ops/cpu/gemm/packed_kernels.h"
#include "hone/ops/cpu/gemm/x86/vnni.h"
#include "hone/ops/cpu/simd.h"

namespace hone::ops::cpu {

bool has_int16_dot() { return device::cpu_features().int8_dot; }

#if defined(__x86_64__)  // arm/int16_dot_gemm_neon.cpp has its own

// A group's words are pairs of inputs in the order of paired_codes: sixteen from 0 and 32 on, then sixteen from 16 and 48 on.
HONE_CPU_KERNEL void quantize_int16(const float* x, const Int16Activations& split, int64_t rows, int64_t width) {
  const auto pairs = [](I32x16 low, I32x16 high) __attribute__((always_inline)) { return (low & 0xFFFF) | (high << 16); };
  for (int64_t group = 0; group < rows * width / kSplitGroup; ++group, x += kSplitGroup) {
    F32x16 most{}, odd{};
    for (int64_t i = 0; i < kSplitGroup; i += kVectorWidth) {
      const F32x16 some = load(x + i, FullVector{});
      most = max(most, max(some, -some)), odd += some * 0.0f;
    }
    const float largest = max(most), by = largest > 0 ? kLargestCount / largest : 0;
    split.scales[group] = largest / kLargestCount + horizontal_sum(odd);  // non-finite values stay non-finite
    const auto counts = [&](int64_t i) __attribute__((always_inline)) {
      return __builtin_convertvector(to_integers(load(x + i * kVectorWidth, FullVector{}) * by), I32x16);
    };
    const I32x16 words[2] = {pairs(counts(0), counts(2)), pairs(counts(1), counts(3))};
    static_assert(sizeof words == kSplitWords * sizeof(int32_t));
    std::memcpy(split.words + group * kSplitWords, words, sizeof words);
  }
}

void dequantize_int16(const Int16Activations& split, float* x, int64_t rows, int64_t width) {
  for (int64_t group = 0; group < rows * width / kSplitGroup; ++group, x += kSplitGroup)
    for (int64_t i = 0; i < kSplitGroup; ++i) {
      const int32_t word = split.words[group * kSplitWords + i % 32];
      x[i] = static_cast<float>(static_cast<int16_t>(i < 32 ? word : word >> 16)) * split.scales[group];
    }
}

namespace {

// Like the tile of small_outputs: the order of a sum depends only on the width, and the next outputs are prefetched.
template <int64_t X, int64_t W>
HONE_VNNI void split_tile(const Int16Activations& x, const int32_t* codes, float* y, const SkinnyShape& shape) {
  F32x16 sums[X][W] = {};
  const int64_t words = shape.width / 4, groups = shape.width / kSplitGroup;
  for (int64_t g = 0; g < groups; ++g)
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) {
      __builtin_prefetch(codes + (n + W) * words + g * kPackedWords);
      const PairedCodes some = paired_codes(load_words(codes + n * words + g * kPackedWords));
#pragma GCC unroll 8
      for (int64_t m = 0; m < X; ++m) {
        const int32_t* inputs = x.words + (m * groups + g) * kSplitWords;
        const I32x16 even = add_pair_dots(I32x16{}, some.even, load_words(inputs)),
                     dots = add_pair_dots(even, some.odd, load_words(inputs + kPackedWords));
        sums[m][n] += __builtin_convertvector(dots, F32x16) * x.scales[m * groups + g];
      }
    }
#pragma GCC unroll 8
  for (int64_t m = 0; m < X; ++m)
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) y[m * shape.y_stride + n] = horizontal_sum(sums[m][n]);
}

}  // namespace

void split_outputs_int8(const Int16Activations& x, const int32_t* codes, const float* scales, float* y,
                        const SkinnyShape& shape) {
  for_tiles<kVnniRows>(shape, [&]<int64_t X, int64_t W>(int64_t m, int64_t n) {
    const Int16Activations rows{x.words + m * (shape.width / 2), x.scales + m * (shape.width / kSplitGroup)};
    split_tile<X, W>(rows, codes + n * (shape.width / 4), y + m * shape.y_stride + n, shape);
  });
  scale_outputs(y, scales, shape.rows, shape.count, shape.y_stride);
}

#endif

}  // namespace hone::ops::cpu
