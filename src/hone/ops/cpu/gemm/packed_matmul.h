// Linear layers with 8-bit and 4-bit weights in the layout of packed_layout.h.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops::cpu {

struct PackedWeight {
  int bits;
  int64_t width;  // inputs; rows are padded beyond
  Tensor codes;   // int32 [out, padded width * bits / 32]
  Tensor scales;  // 8 bits: float32 [out]; 4 bits: bfloat16 [out, padded groups / 16, 2, 16]
};

// codes uint8 [out, width]; scales [out], or for 4 bits scales and lowest values [out, width / 32].
PackedWeight pack_int8(const Tensor& codes, const Tensor& scales);
PackedWeight pack_int4(const Tensor& codes, const Tensor& scales, const Tensor& min);

bool multiplies_many_rows();  // whether packed_matmul takes more than kBatchInvariantRows
Tensor packed_matmul(const Tensor& x, const PackedWeight& weight, const Tensor& bias);  // x W^T + bias in x's dtype
// The same in float32, with inputs as they are: where there are no integer dot products, and outputs are not interleaved.
Tensor unpacked_matmul(const Tensor& x, const PackedWeight& weight, const Tensor& bias);
Tensor unpacked_rows(const PackedWeight& weight, int64_t first, int64_t count);  // float32 [count, width]
// x in float32 as packed_matmul multiplies it, possibly quantized:
// a row's result must not depend on the number of rows.
Tensor fake_quantize_input(const Tensor& x, const PackedWeight& weight);

}  // namespace hone::ops::cpu
