// The layouts of GPTQ and AWQ: integers packed into 32-bit words, with a scale and a zero per group of inputs of an output.
#pragma once
#include "hone/device/tensor.h"

namespace hone::io {

// Integers of 2, 4 or 8 bits side by side in words of 32, lowest bits first.
// [n / k, m] -> [n, m] and back, where a word holds k values of neighboring rows.
Tensor unpack_rows(const Tensor& words, int bits);
Tensor pack_rows(const Tensor& values, int bits);
// The same along the last dimension.
Tensor unpack_columns(const Tensor& words, int bits);
Tensor pack_columns(const Tensor& values, int bits);

// GPTQ, as in gptqmodel, auto-gptq, vLLM and transformers: packed along the inputs, with the group of each input.
struct GptqWeight {
  Tensor qweight;  // int32 [in / k, out]
  Tensor qzeros;   // int32 [groups, out / k]
  Tensor scales;   // [groups, out]
  Tensor g_idx;    // int32 [in]
};

// `has_v1_zeros`: version 1 of the format stores each zero minus one.
Tensor dequantize(const GptqWeight& weight, int bits, bool has_v1_zeros);  // float32 [out, in]
// codes [out, in] in 0 … 2^bits - 1; scales and zeros [out, groups].
GptqWeight pack_gptq(const Tensor& codes, const Tensor& scales, const Tensor& zeros, const Tensor& groups_of_inputs, int bits,
                     bool has_v1_zeros);

// AWQ's "gemm" layout: 4 bits, packed along the outputs in the order that its kernels unpack.
struct AwqWeight {
  Tensor qweight;  // int32 [in, out / 8]
  Tensor qzeros;   // int32 [groups, out / 8]
  Tensor scales;   // [groups, out]
};

Tensor dequantize(const AwqWeight& weight);  // float32 [out, in]
// codes [out, in] in 0 … 15; scales and zeros [out, groups].
AwqWeight pack_awq(const Tensor& codes, const Tensor& scales, const Tensor& zeros);

}  // namespace hone::io
