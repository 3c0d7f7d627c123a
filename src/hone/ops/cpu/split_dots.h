// 8-bit weights against inputs in two bytes each, for processors that sum products of signed bytes in one instruction (Arm's dot
// products). A quarter of the instructions that go by way of floats; what the inputs lose, 2^-15 of the largest of 64, is below
// what they are known to.
#pragma once
#include <cstdint>

#include "hone/ops/cpu/small_matmul_kernels.h"

namespace hone::ops::cpu {

bool has_split_dots();

constexpr int64_t kSplitGroup = 64;   // inputs of sixteen words
constexpr int32_t kHighCounts = 128;  // an input is (high * 128 + low) * scale of its group
// Rows of inputs; all widths here are padded (packed_layout.h).
struct SplitRows {
  int8_t *high, *low;  // [rows, width]: of each group in the order of its weights' bytes
  float* scales;       // [rows, width / kSplitGroup]
};
void split_rows(const float* x, const SplitRows& split, int64_t rows, int64_t width);

void split_outputs_int8(const SplitRows& x, const int32_t* codes, const float* scales, float* y, const SmallShape& shape);

}  // namespace hone::ops::cpu
