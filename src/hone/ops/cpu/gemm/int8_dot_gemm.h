// 4-bit weights times 8-bit inputs, for processors with int8 dot products (AVX2, VNNI, Arm): a quarter of the instructions of
// float arithmetic, so that the product is bound by reading the weights.
#pragma once
#include <c10/util/BFloat16.h>

#include <cstdint>

#include "hone/ops/cpu/gemm/skinny_gemm_kernels.h"

namespace hone::ops::cpu {

bool has_int8_dot();

// A row of inputs, each group of kPackedGroup quantized with its own scale. All widths here are padded (packed_kernels.h).
struct QuantizedActivations {
  int8_t* codes;  // [rows, width]: of each block the even inputs, then the odd ones, as the fields of words use them
  float* scales;  // [rows, width / 8]: of the group that each word belongs to
  float* sums;    // [rows, padded groups]: what the rounded inputs of each group add up to
};
void quantize_activations(const float* x, const QuantizedActivations& rounded, int64_t rows, int64_t width);

void int8_dot_int4_weights(const QuantizedActivations& x, const int32_t* codes, const c10::BFloat16* scales, float* y,
                           const SkinnyShape& shape);

}  // namespace hone::ops::cpu
