// 8-bit weights times 16-bit inputs, for processors with integer dot products (AVX2, VNNI, Arm). A quarter to a half of the
// instructions of float arithmetic; the inputs' rounding error, 2^-15 of the largest of 64, is below their precision.
#pragma once
#include <cstdint>

#include "hone/ops/cpu/gemm/skinny_gemm_kernels.h"

namespace hone::ops::cpu {

bool has_int16_dot();

constexpr int64_t kSplitGroup = 64;   // inputs with one scale
constexpr int64_t kSplitWords = 32;   // that they are stored in
constexpr int32_t kHighCounts = 128;  // Arm multiplies bytes: an input is (high * 128 + low) * scale of its group
constexpr float kLargestCount = 127 * kHighCounts;

// Rows of inputs; all widths here are padded (packed_layout.h).
struct Int16Activations {
  int32_t* words;  // [rows, width / 2]: of each group in the form in which this processor multiplies them
  float* scales;   // [rows, width / kSplitGroup]
};
void quantize_int16(const float* x, const Int16Activations& split, int64_t rows, int64_t width);
void dequantize_int16(const Int16Activations& split, float* x, int64_t rows, int64_t width);

void split_outputs_int8(const Int16Activations& x, const int32_t* codes, const float* scales, float* y, const SkinnyShape& shape);

}  // namespace hone::ops::cpu
