// 8-bit weights times 16-bit inputs, split into two bytes, for processors with int8 dot products (Arm). A quarter of the
// instructions of float arithmetic; the inputs' rounding error, 2^-15 of the largest of 64, is below their precision.
#pragma once
#include <cstdint>

#include "hone/ops/cpu/gemm/skinny_gemm_kernels.h"

namespace hone::ops::cpu {

bool has_int16_dot();

constexpr int64_t kSplitGroup = 64;   // inputs of sixteen words
constexpr int32_t kHighCounts = 128;  // an input is (high * 128 + low) * scale of its group
// Rows of inputs; all widths here are padded (packed_layout.h).
struct Int16Activations {
  int8_t *high, *low;  // [rows, width]: of each group in the order of its weights' bytes
  float* scales;       // [rows, width / kSplitGroup]
};
void quantize_int16(const float* x, const Int16Activations& split, int64_t rows, int64_t width);

void split_outputs_int8(const Int16Activations& x, const int32_t* codes, const float* scales, float* y, const SkinnyShape& shape);

}  // namespace hone::ops::cpu
