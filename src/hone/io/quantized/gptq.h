// GPTQ's layout, as in gptqmodel, auto-gptq, vLLM and transformers: codes packed along the inputs, a scale and a zero per group
// of inputs of an output, and the group of each input.
#pragma once
#include "hone/device/tensor.h"

namespace hone::io {

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

}  // namespace hone::io
