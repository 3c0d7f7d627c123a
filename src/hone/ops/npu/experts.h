// torch_npu's operators for mixtures of experts. Shapes as in ops/moe/moe_permute.h.
#pragma once
#include "hone/ops/moe/moe_permute.h"

namespace hone::ops::npu {

PermutedTokens to_experts(const Tensor& tokens_th, const Tensor& experts_tk);
Tensor from_experts(const Tensor& rows_rh, const Tensor& places_r, const Tensor& weights_tk);
Tensor grouped_matmul(const Tensor& rows, const Tensor& matrices, const Tensor& counts);
// For each expert's rows: a transposed times b. a [R, in], b [R, out] → [E, in, out].
Tensor grouped_outer(const Tensor& a, const Tensor& b, const Tensor& counts);

}  // namespace hone::ops::npu
