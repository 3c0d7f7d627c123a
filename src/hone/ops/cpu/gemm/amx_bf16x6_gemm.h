// float32 GEMM on a bfloat16 matrix unit (AMX): a float is the sum of three bfloat16 numbers, and the six largest of their nine
// products are summed; the error is at most 2^-22 of a product. Several times as fast as float32 products.
#pragma once
#include <c10/util/BFloat16.h>

#include "hone/ops/cpu/gemm/skinny_gemm_kernels.h"

namespace hone::ops::cpu {

// x [rows, width] packed for the unit: for each 32 inputs and sixteen rows the high, middle and low parts, each by pairs of
// inputs (i, i + 16). Rows are padded to multiples of sixteen.
inline int64_t row_blocks_of(int64_t rows) { return (rows + 15) / 16; }
int64_t split_size(int64_t rows, int64_t width);  // numbers in all
void pack_bf16x3(const float* x, c10::BFloat16* parts, int64_t rows, int64_t width);
void pack_bf16x3(const float* x, c10::BFloat16* parts, int64_t rows, int64_t width, int64_t row_blocks);

// At most 32 rows; the width is a multiple of kAmxInputs (amx_gemm.h).
void amx_outputs(const c10::BFloat16* parts, const float* weight, float* y, const SkinnyShape& shape);

}  // namespace hone::ops::cpu
