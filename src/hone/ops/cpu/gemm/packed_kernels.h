// The inner loops of linear layers with 8-bit or 4-bit weights, on plain pointers. A shift and a mask turn a code into a float:
// placed after the exponent of 1 it is 1 + code / 2^bits, and the 1 is subtracted using sums of x.
#pragma once
#include <c10/util/BFloat16.h>

#include <cstdint>

#include "hone/ops/cpu/gemm/packed_layout.h"

namespace hone::ops::cpu {

// Sums of x [rows, width] over groups: [rows, padded_groups(width)]. All widths here are padded.
void group_sums(const float* x, float* sums, int64_t rows, int64_t width);
// x of a block of 4-bit weights in the order of their fields: [blocks, 8, 16] from [blocks, 16, 8].
void order_by_fields(const float* x, float* ordered, int64_t count);
void packed_outputs_int8(const float* x, const float* sums, const int32_t* codes, const float* scales, float* y,
                         const SkinnyShape& shape);
void packed_outputs_int4(const float* ordered, const float* sums, const int32_t* codes, const c10::BFloat16* scales, float* y,
                         const SkinnyShape& shape);

// y [rows, count], `stride` apart, times each output's scale.
void scale_outputs(float* y, const float* scales, int64_t rows, int64_t count, int64_t stride);

// Dequantizes rows of the weight to float32 [rows, width].
void unpack_int8(const int32_t* codes, const float* scales, float* weight, int64_t rows, int64_t width);
void unpack_int4(const int32_t* codes, const c10::BFloat16* scales, float* weight, int64_t rows, int64_t width);

}  // namespace hone::ops::cpu
