// The gradient of a bias: sums over the rows of a matrix.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops {

Tensor column_sums(const Tensor& x);

}  // namespace hone::ops
