// bitsandbytes' saved weights: 4 bits with a scale per block, whose scales may be quantized too; or 8 bits with a scale per
// row.
#pragma once
#include "hone/base/json.h"
#include "hone/device/tensor.h"

namespace hone::io {

struct Bnb4Weight {
  Tensor codes;                      // uint8, two of 4 bits each, the first in the upper half
  Tensor scales, table;              // of each block, float32 or uint8 codes; the values of the codes
  Tensor outer_scales, scale_table;  // of scales that are codes; undefined otherwise
  Json state;                        // blocksize, shape, nested_offset …: the JSON next to the tensors
};

Result<Tensor> dequantize(const Bnb4Weight& weight);  // float32 [out, in]
Tensor dequantize_int8(const Tensor& codes, const Tensor& row_scales);

// {"quant_type": …} as the bytes of a tensor, and back.
Tensor state_tensor(const Json& state);
Result<Json> parse_state(const Tensor& bytes);

}  // namespace hone::io
