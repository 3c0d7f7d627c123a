// float32 on a matrix unit that multiplies bfloat16 (AMX): a float is the sum of three such numbers, and of their nine products
// the six largest are summed; what is left out is at most 2^-22 of a product. Several times as fast as products of floats.
#pragma once
#include <c10/util/BFloat16.h>

#include "hone/ops/cpu/gemm/skinny_gemm_kernels.h"

namespace hone::ops::cpu {

// x [rows, width] as the unit reads it: for each 32 inputs and sixteen rows the high, middle and low parts, each by pairs of
// inputs (i, i + 16). Rows are filled up to whole sixteens, or to more of them.
inline int64_t row_blocks_of(int64_t rows) { return (rows + 15) / 16; }
int64_t split_size(int64_t rows, int64_t width);  // numbers in all
void pack_bf16x3(const float* x, c10::BFloat16* parts, int64_t rows, int64_t width);
void pack_bf16x3(const float* x, c10::BFloat16* parts, int64_t rows, int64_t width, int64_t row_blocks);

// At most two sixteens of rows; a width of whole kAmxInputs (matrix_unit.h).
void amx_outputs(const c10::BFloat16* parts, const float* weight, float* y, const SkinnyShape& shape);

}  // namespace hone::ops::cpu
