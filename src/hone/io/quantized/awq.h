// AWQ's "gemm" layout: 4-bit codes packed along the outputs in the order that its kernels unpack, with a scale and a zero per
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
