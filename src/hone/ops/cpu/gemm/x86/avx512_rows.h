// Linear layers of up to 32 rows with AVX-512: skinny_gemm_kernels.h where all 32 registers are there. 16-bit weights are widened
// by one instruction for sixteen of them, blocks of the inputs stay in the first-level cache, and the next outputs' weights
// arrive at the pace at which they are used.
#pragma once
#include "hone/ops/cpu/gemm/skinny_gemm_kernels.h"

namespace hone::ops::cpu {

bool has_avx512_rows();

// x [rows, width] packed for avx512_outputs, in float32. Of bfloat16, even inputs come before odd ones in each 32.
int64_t avx512_row(int64_t width);  // floats of one row
void pack_avx512_rows(const float* x, float* packed, int64_t rows, int64_t width);
void pack_avx512_rows(const c10::BFloat16* x, float* packed, int64_t rows, int64_t width);
void pack_avx512_rows(const c10::Half* x, float* packed, int64_t rows, int64_t width);

// The order of each sum depends only on the width.
void avx512_outputs(const float* packed, const float* weight, float* y, const SkinnyShape& shape);
void avx512_outputs(const float* packed, const c10::BFloat16* weight, float* y, const SkinnyShape& shape);
void avx512_outputs(const float* packed, const c10::Half* weight, float* y, const SkinnyShape& shape);

}  // namespace hone::ops::cpu
