// Few rows times bfloat16 weights on AMX: sixteen outputs of sixteen rows at a time, so that the product is bound by reading the
// weights, however many rows there are.
#pragma once
#include <c10/util/BFloat16.h>

#include "hone/ops/cpu/gemm/skinny_gemm_kernels.h"

namespace hone::ops::cpu {

constexpr int64_t kAmxInputs = 32, kAmxRows = 16;  // of one instruction; widths are whole multiples, rows at most two of them

bool has_amx();  // requests permission from the kernel, once

// x [rows, width] packed for the unit: for each sixteen rows the pairs of inputs in sequence, each with all its rows.
void pack_for_amx(const c10::BFloat16* x, c10::BFloat16* packed, int64_t rows, int64_t width);
void amx_outputs(const c10::BFloat16* packed, const c10::BFloat16* weight, float* y, const SkinnyShape& shape);

}  // namespace hone::ops::cpu
