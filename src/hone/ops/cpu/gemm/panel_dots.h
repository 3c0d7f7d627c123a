// Weights of 8 and 4 bits against many rows of inputs, which are rounded as for few rows (split_dots.h, byte_dots.h): prompts in
// about half the time of float32.
#pragma once
#include "hone/ops/cpu/gemm/int16_dot_gemm.h"
#include "hone/ops/cpu/gemm/int8_dot_gemm.h"
#include "hone/ops/cpu/gemm/packed_matmul.h"

namespace hone::ops::cpu {

bool has_panel_dots();

Tensor panel_dots_int8(const Int16Activations& x, int64_t rows, const PackedWeight& weight);  // float32 [rows, out]
Tensor panel_dots_int4(const QuantizedActivations& x, int64_t rows, const PackedWeight& weight);

}  // namespace hone::ops::cpu
