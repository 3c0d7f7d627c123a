// Few rows times bfloat16 weights with Arm's BFMMLA: one instruction multiplies two rows by two outputs, so that the product is
// bound by reading the weights.
#pragma once
#include <c10/util/BFloat16.h>

#include "hone/ops/cpu/gemm/skinny_gemm_kernels.h"

namespace hone::ops::cpu {

bool has_bf16_mmla();

// x [rows, width] packed for mmla_outputs: by pairs of rows, four inputs of one, then four of the other. Widths are zero-padded
// to multiples of eight and rows to pairs.
int64_t mmla_packed_size(int64_t rows, int64_t width);  // numbers in all
void pack_for_mmla(const c10::BFloat16* x, c10::BFloat16* packed, int64_t rows, int64_t width);
void mmla_outputs(const c10::BFloat16* packed, const c10::BFloat16* weight, float* y, const SkinnyShape& shape);

}  // namespace hone::ops::cpu
