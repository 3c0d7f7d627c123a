// Few rows against bfloat16 weights with Arm's products of small matrices (BFMMLA): two rows meet two outputs in one instruction,
// so that reading the weights is all that is left to wait for.
#pragma once
#include <c10/util/BFloat16.h>

#include "hone/ops/cpu/gemm/skinny_gemm_kernels.h"

namespace hone::ops::cpu {

bool has_bf16_mmla();

// x [rows, width] as mmla_outputs reads it: by pairs of rows, four inputs of each in turn. Widths are filled up to whole eights
// and rows to whole pairs, with zeros.
int64_t mmla_packed_size(int64_t rows, int64_t width);  // numbers in all
void pack_for_mmla(const c10::BFloat16* x, c10::BFloat16* packed, int64_t rows, int64_t width);
void mmla_outputs(const c10::BFloat16* packed, const c10::BFloat16* weight, float* y, const SkinnyShape& shape);

}  // namespace hone::ops::cpu
