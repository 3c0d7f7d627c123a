// Linear layers whose weights are rounded to 8 or 4 bits, for inference on the CPU: less to read per token.
#pragma once
#include <memory>

#include "hone/device/tensor.h"

namespace hone::ops {

// 8 bits: one scale per output. 4 bits: a scale and a lowest value for every 32 inputs of an output.
struct QuantizedWeight {
  int bits = 8;
  Tensor codes;   // uint8 [out, in], 128 is zero; or [out, in / 2], two to a byte
  Tensor scales;  // float32 [out], or [out, in / 32, 2]
};

// Throws UserError(usage) for other bits or a width that does not fit the groups.
std::shared_ptr<const QuantizedWeight> quantize_weight(const Tensor& weight, int bits);
Tensor dequantized(const QuantizedWeight& weight);  // float32 [out, in]
Tensor quantized_linear(const Tensor& x, const QuantizedWeight& weight, const Tensor& bias);

}  // namespace hone::ops
