// Converts rows of bfloat16 to float8 with a scale each, on an NVIDIA GPU in one pass. Not supported without nvcc.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cuda {

struct Float8Rows {
  Tensor values, scales;  // e4m3 [T, w]; float32 [T, 1], which times the values gives the rows
};

inline constexpr int64_t kWidestFloat8 = 81920;  // of a row
bool supports_float8_rows(const Tensor& x);
Float8Rows float8_rows(const Tensor& x);

}  // namespace hone::ops::cuda
