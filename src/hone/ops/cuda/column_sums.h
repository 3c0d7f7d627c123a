// Sums over the rows of a matrix on NVIDIA GPUs.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cuda {

// Sums the columns of rows that supports_rows (training.h) accepts, in float32; the result has their dtype.
Tensor column_sums(const Tensor& x);
// Sums the columns of float32 rows, such as the thread blocks' partial sums of a kernel; the result is rounded to `type`.
Tensor total_of_sums(const Tensor& sums, at::ScalarType type);

}  // namespace hone::ops::cuda
