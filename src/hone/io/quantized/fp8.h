// float8 weights with a scale per block, row or tensor: DeepSeek's and Qwen's fp8 folders.
#pragma once
#include "hone/device/tensor.h"

namespace hone::io {

inline constexpr int64_t kFp8Block = 128;

// `scales` may be one number, [out, 1], or a grid of blocks of at most `block` rows and columns.
Tensor dequantize_fp8(const Tensor& codes, const Tensor& scales, int64_t block_rows = kFp8Block,
                      int64_t block_columns = kFp8Block);

struct Fp8Weight {
  Tensor codes;   // float8_e4m3fn [out, in]
  Tensor scales;  // float32 [out / 128, in / 128], rounded up
};
Fp8Weight pack_fp8(const Tensor& weight);

}  // namespace hone::io
