// Linear layers over weights of 8 and 4 bits for few rows, up to kBatchInvariantRows: the sums of a piece get the bias and become
// x's type while they are in the cache.
#pragma once
#include "hone/ops/cpu/gemm/packed_matmul.h"

namespace hone::ops::cpu {

Tensor packed_linear(const Tensor& x, const PackedWeight& weight, const Tensor& bias);  // `bias` may be undefined

}  // namespace hone::ops::cpu
