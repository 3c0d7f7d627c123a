// Few rows of rounded inputs times 8- and 4-bit weights (int16_dot_gemm.h, int8_dot_gemm.h), with AVX-512's integer dot products
// or with AVX2.
#pragma once
#include "hone/ops/cpu/gemm/int16_dot_gemm.h"
#include "hone/ops/cpu/gemm/int8_dot_gemm.h"

namespace hone::ops::cpu {

// Sums before the outputs' scales.
void split_outputs_vnni(const Int16Activations& x, const int32_t* codes, float* y, const SkinnyShape& shape);
void split_outputs_avx2(const Int16Activations& x, const int32_t* codes, float* y, const SkinnyShape& shape);

void byte_outputs_vnni(const QuantizedActivations& x, const int32_t* codes, const c10::BFloat16* scales, float* y,
                       const SkinnyShape& shape);
void byte_outputs_avx2(const QuantizedActivations& x, const int32_t* codes, const c10::BFloat16* scales, float* y,
                       const SkinnyShape& shape);

}  // namespace hone::ops::cpu
