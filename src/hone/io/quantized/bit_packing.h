// Integers of 2, 4 or 8 bits side by side in words of 32, lowest bits first.
#pragma once
#include "hone/device/tensor.h"

namespace hone::io {

// [n / k, m] -> [n, m] and back, where a word holds k values of neighboring rows.
Tensor unpack_rows(const Tensor& words, int bits);
Tensor pack_rows(const Tensor& values, int bits);
// The same along the last dimension.
Tensor unpack_columns(const Tensor& words, int bits);
Tensor pack_columns(const Tensor& values, int bits);

}  // namespace hone::io
