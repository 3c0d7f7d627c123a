#include "hone/ops/npu/experts.h"

#include "hone/ops/npu/boxed.h"

namespace hone::ops::npu {
namespace {

// npu_grouped_matmul's arguments for the axis of its groups, and for counts rather than cumulative sums.
constexpr int64_t kOneOutput = 3, kByRows = 0, kByProducts = 2, kCounts = 1;

Tensor grouped(const Tensor& x, const Tensor& weight, const Tensor& counts, int64_t axis) {
  return call_for_all(
      "npu_grouped_matmul",
      {{TensorList{x}, TensorList{weight}},
       {{"group_list", counts}, {"split_item", kOneOutput}, {"group_type", axis}, {"group_list_type", kCounts}}})[0];
}

}  // namespace

PermutedTokens to_experts(const Tensor& tokens_th, const Tensor& experts_tk) {
  auto found = call_for_all("npu_moe_token_permute", {{tokens_th, experts_tk}});
  return {found[0], found[1]};
}

Tensor from_experts(const Tensor& rows_rh, const Tensor& places_r, const Tensor& weights_tk) {
  return call("npu_moe_token_unpermute", {{rows_rh, places_r, weights_tk.to(rows_rh.scalar_type())}});
}

Tensor grouped_matmul(const Tensor& rows, const Tensor& matrices, const Tensor& counts) {
  return grouped(rows, matrices, counts, kByRows);
}

Tensor grouped_outer(const Tensor& a, const Tensor& b, const Tensor& counts) { return grouped(a.t(), b, counts, kByProducts); }

}  // namespace hone::ops::npu
