// A linear layer for many rows of float32 where nothing is differentiated, on a matrix unit: about twice as fast as a product of floats.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cpu {

bool serves_long(const Tensor& x, const Tensor& weight);
Tensor long_matmul(const Tensor& x, const Tensor& weight, const Tensor& bias);  // x W^T + b, as matmul_nt

}  // namespace hone::ops::cpu
