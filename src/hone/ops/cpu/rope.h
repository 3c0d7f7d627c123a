// Rows of RoPE: every head of a token rotated by its position's angles, or back.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cpu {

void rope(const Tensor& x, const Tensor& cos, const Tensor& sin, float direction, Tensor& y);

}  // namespace hone::ops::cpu
