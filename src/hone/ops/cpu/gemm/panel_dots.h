// 8-bit and 4-bit weights times many rows of inputs, quantized as for few rows (int16_dot_gemm.h, int8_dot_gemm.h): prefill in
// about half the time of float32.
#pragma once
#include "hone/ops/cpu/gemm/int16_dot_gemm.h"
#include "hone/ops/cpu/gemm/int8_dot_gemm.h"
#include "hone/ops/cpu/gemm/packed_matmul.h"

namespace hone::ops::cpu {

bool has_panel_dots();

// x W^T + bias, [rows, out] in `dtype`. `bias` may be undefined.
Tensor panel_dots_int8(const Int16Activations& x, int64_t rows, const PackedWeight& weight, const Tensor& bias,
                       at::ScalarType dtype);
Tensor panel_dots_int4(const QuantizedActivations& x, int64_t rows, const PackedWeight& weight, const Tensor& bias,
                       at::ScalarType dtype);

}  // namespace hone::ops::cpu
