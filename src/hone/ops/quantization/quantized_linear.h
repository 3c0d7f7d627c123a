// Linear layers with weights quantized to 8 or 4 bits, for inference on the CPU: less to read per token.
#pragma once
#include <memory>

#include "hone/ops/cpu/gemm/packed_matmul.h"

namespace hone::ops {

// 8 bits: one scale per output. 4 bits: a scale and a minimum, both bfloat16, for every 32 inputs of an output.
using PackedWeight = cpu::PackedWeight;

// Throws UserError(usage) for other bits or a width that does not fit the groups.
std::shared_ptr<const PackedWeight> quantize_weight(const Tensor& weight, int bits);
Tensor dequantized(const PackedWeight& weight);  // float32 [out, in]
Tensor quantized_linear(const Tensor& x, const PackedWeight& weight, const Tensor& bias);

}  // namespace hone::ops
