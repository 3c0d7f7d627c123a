// The norms by which DoRA divides.
#pragma once
#include "hone/ops/linear/lora_linear.h"

namespace hone::ops {

// |W + s B A| of each row, [out], without gradient, one block of rows at a time. 1 for a row of zeros, whose output stays 0: a
// shard of a layer may have one.
Tensor updated_norm(const Tensor& weight, const LoraWeights& adapter, at::ScalarType dtype);

}  // namespace hone::ops
