// Few rows against bfloat16 weights on a processor's matrix unit (AMX): sixteen outputs of sixteen rows at a time, so that reading the
// weights is all that is left to wait for, however many rows there are.
#pragma once
#include <c10/util/BFloat16.h>

#include "hone/ops/cpu/small_matmul_kernels.h"

namespace hone::ops::cpu {

constexpr int64_t kUnitInputs = 32, kUnitRows = 16;  // of one instruction; widths are whole multiples, rows at most two of them

bool has_matrix_unit();  // asks the system for leave to use it, once

// x [rows, width] as the unit reads it: for each sixteen rows the pairs of inputs one after the other, each with all its rows.
void pack_for_unit(const c10::BFloat16* x, c10::BFloat16* packed, int64_t rows, int64_t width);
void unit_outputs(const c10::BFloat16* packed, const c10::BFloat16* weight, float* y, const SmallShape& shape);

}  // namespace hone::ops::cpu
