// Few rows against bfloat16 weights on a processor's matrix unit (AMX): sixteen outputs of sixteen rows at a time, so that
// reading the weights is all that is left to wait for, however many rows there are.
#pragma once
#include <c10/util/BFloat16.h>

#include "hone/ops/cpu/gemm/skinny_gemm_kernels.h"

namespace hone::ops::cpu {

constexpr int64_t kAmxInputs = 32, kAmxRows = 16;  // of one instruction; widths are whole multiples, rows at most two of them

bool has_amx();  // requests permission from the kernel, once

// x [rows, width] as the unit reads it: for each sixteen rows the pairs of inputs one after the other, each with all its rows.
void pack_for_amx(const c10::BFloat16* x, c10::BFloat16* packed, int64_t rows, int64_t width);
void amx_outputs(const c10::BFloat16* packed, const c10::BFloat16* weight, float* y, const SkinnyShape& shape);

}  // namespace hone::ops::cpu
