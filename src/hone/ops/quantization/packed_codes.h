// Codes of 1 to 8 bits, several in a byte.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops {

inline constexpr int kShortBits = 4;  // of nf4 and fp4

// As many codes per byte as fit, the first in the highest bits; the last byte is zero-padded.
Tensor pack_codes(const Tensor& codes, int bits);
Tensor unpack_codes(const Tensor& bytes, int bits, int64_t count);

}  // namespace hone::ops
