#include "hone/ops/cpu/gemm/int16_dot_gemm.h"

#include "hone/device/cpu_features.h"
#include "hone/ops/cpu/gemm/packed_kernels.h"
#include "hone/ops/cpu/gemm/x86/integer_dots.h"
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

void split_outputs_int8(const Int16Activations& x, const int32_t* codes, const float* scales, float* y,
                        const SkinnyShape& shape) {
  (device::cpu_features().avx512_vnni ? split_outputs_vnni : split_outputs_avx2)(x, codes, y, shape);
  scale_outputs(y, scales, shape.rows, shape.count, shape.y_stride);
}

#endif

}  // namespace hone::ops::cpu
