// Linear layers with 8-bit and 4-bit weights for few rows, up to kBatchInvariantRows: bias and conversion to x's dtype are
// applied to a piece while it is in the cache.
#pragma once
#include "hone/ops/cpu/gemm/packed_matmul.h"

namespace hone::ops::cpu {

Tensor packed_linear(const Tensor& x, const PackedWeight& weight, const Tensor& bias);  // `bias` may be undefined

}  // namespace hone::ops::cpu
