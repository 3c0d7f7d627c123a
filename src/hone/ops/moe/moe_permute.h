// Permutation of tokens for a mixture of experts: each token goes to several experts, and each expert computes its rows together.
#pragma once
#include "hone/device/tensor.h"

namespace hone::ops {

struct PermutedTokens {
  Tensor rows_rh = {};        // [T * k, h]: tokens in the order of their experts
  Tensor permutation_r = {};  // int32 [T * k]: the row of a token's choice; choices are numbered t * k + j
  Tensor order_r = {};        // int32 [T * k]: the choice of a row; undefined on NPUs
  Tensor counts_e = {};       // int64 [E] on the tokens' device: rows of each expert
};

// How often each expert was chosen: experts int64 [T, k] → int64 [num_experts] on the same device.
Tensor tokens_per_expert(const Tensor& experts_tk, int64_t num_experts);

// tokens [T, h], experts int64 [T, k]: the experts of each token. Rows of one expert keep the tokens' order. The
// host does not wait for the counts.
PermutedTokens to_experts_plain(const Tensor& tokens_th, const Tensor& experts_tk, int64_t num_experts);
PermutedTokens moe_permute(const Tensor& tokens_th, const Tensor& experts_tk, int64_t num_experts);

// The weighted sum of a token's rows: rows [T * k, h], weights [T, k] → [T, h].
Tensor from_experts_plain(const Tensor& rows_rh, const Tensor& places_r, const Tensor& weights_tk);
Tensor moe_unpermute(const Tensor& rows_rh, const Tensor& places_r, const Tensor& weights_tk);
// The sum of a token's `choices` rows, which were weighted before.
Tensor moe_unpermute_weighted(const Tensor& rows_rh, const Tensor& places_r, int64_t choices);

// Each expert's rows times its own matrix: rows [R, in], matrices [E, in, out], counts int64 [E] on the rows' device → [R, out].
Tensor grouped_matmul_plain(const Tensor& rows, const Tensor& matrices, const Tensor& counts);
// Whether libtorch's grouped product multiplies rows of their dtype by these matrices [E, out, in] on a GPU.
bool supports_grouped_mm(const Tensor& matrices);
// One autograd node: an expert without rows costs nothing, and the gradient of all matrices is one tensor.
Tensor grouped_matmul(const Tensor& rows, const Tensor& matrices, const Tensor& counts);

}  // namespace hone::ops
