// Sums over the rows of a matrix on NVIDIA GPUs.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cuda {

// Of rows that supports_rows (training.h) accepts, in their dtype, added in float32.
Tensor column_sums(const Tensor& x);
// Of float32 rows, such as those that the blocks of a kernel wrote, rounded to `type`.
Tensor total_of_sums(const Tensor& sums, at::ScalarType type);

}  // namespace hone::ops::cuda
