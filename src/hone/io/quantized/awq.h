// AWQ's "gemm" layout: codes of 4 bits packed along the outputs in an order its kernels unpack fast, a scale and a zero for each
// group.
#pragma once
#include "hone/device/tensor.h"

namespace hone::io {

struct AwqWeight {
  Tensor qweight;  // int32 [in, out / 8]
  Tensor qzeros;   // int32 [groups, out / 8]
  Tensor scales;   // [groups, out]
};

Tensor dequantize(const AwqWeight& weight);  // float32 [out, in]
// codes [out, in] in 0 … 15; scales and zeros [out, groups].
AwqWeight pack_awq(const Tensor& codes, const Tensor& scales, const Tensor& zeros);

}  // namespace hone::io
