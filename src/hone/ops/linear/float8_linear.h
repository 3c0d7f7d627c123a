// y = x W^T + b with float8 products, forward and backward: torchao's default recipe. Each tensor has one dynamic scale; inputs
// and weights are e4m3, gradients e5m2. On devices without such products, the same roundings are applied in float32.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops {

struct Float8Format {
  double largest;
  int least_exponent, fraction_bits;
};
inline constexpr Float8Format kE4m3{448, -6, 3}, kE5m2{57344, -14, 2};

// Rounds to the nearest value of the format, ties to even, saturating.
Tensor rounded_to(const Tensor& values, const Float8Format& format);

// x [..., in], W [out, in] with sizes that are multiples of 16, b [out] or undefined.
Tensor float8_linear(const Tensor& x, const Tensor& weight, const Tensor& bias);

}  // namespace hone::ops
