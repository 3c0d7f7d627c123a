#include "hone/ops/expert_rows.h"

#include "hone/device/autograd.h"
#include "hone/ops/npu/boxed.h"
#include "hone/ops/npu/experts.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// torch_npu has no derivative of the product: the gradient of the rows is one by transposed matrices, that of the matrices one
// over rows.
class GroupedMatmul : public torch::autograd::Function<GroupedMatmul> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& rows, const Tensor& matrices, const Tensor& counts) {
    ctx->save_for_backward({rows, matrices, counts});
    return npu::grouped_matmul(rows, matrices, counts);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    auto saved = ctx->get_saved_variables();
    const auto &rows = saved[0], &matrices = saved[1], &counts = saved[2];
    auto grad = grads[0].contiguous();
    auto drows = ctx->needs_input_grad(0) ? npu::grouped_matmul(grad, matrices.transpose(1, 2), counts) : Tensor();
    auto dmatrices = ctx->needs_input_grad(1) ? npu::grouped_outer(rows, grad, counts) : Tensor();
    return {drows, dmatrices, Tensor()};
  }
};

}  // namespace

ExpertRows to_experts_plain(const Tensor& tokens_th, const Tensor& experts_tk) {
  auto order = std::get<1>(experts_tk.reshape({-1}).sort(/*stable=*/true, /*dim=*/0, /*descending=*/false));
  return {tokens_th.index_select(0, order.div(experts_tk.size(1), "floor")), order.argsort().to(at::kInt)};
}

ExpertRows to_experts(const Tensor& tokens_th, const Tensor& experts_tk) {
  return npu::serves(tokens_th, "npu_moe_token_permute") ? npu::to_experts(tokens_th, experts_tk)
                                                         : to_experts_plain(tokens_th, experts_tk);
}

Tensor from_experts_plain(const Tensor& rows_rh, const Tensor& places_r, const Tensor& weights_tk) {
  auto own = rows_rh.index_select(0, places_r.to(at::kLong)).view({weights_tk.size(0), weights_tk.size(1), -1});
  return (own * weights_tk.unsqueeze(2).to(own.scalar_type())).sum(1);
}

Tensor from_experts(const Tensor& rows_rh, const Tensor& places_r, const Tensor& weights_tk) {
  bool fused = npu::serves(rows_rh, "npu_moe_token_unpermute");
  return fused ? npu::from_experts(rows_rh, places_r, weights_tk) : from_experts_plain(rows_rh, places_r, weights_tk);
}

Tensor grouped_matmul_plain(const Tensor& rows, const Tensor& matrices, const Tensor& counts) {
  auto on_host = counts.to(at::kCPU);
  TensorList parts;
  int64_t begin = 0;
  for (int64_t expert = 0; expert < matrices.size(0); ++expert) {
    int64_t count = on_host[expert].item<int64_t>();
    parts.push_back(at::mm(rows.narrow(0, begin, count), matrices[expert]));
    begin += count;
  }
  return at::cat(parts);
}

Tensor grouped_matmul(const Tensor& rows, const Tensor& matrices, const Tensor& counts) {
  return npu::serves(rows, "npu_grouped_matmul") ? GroupedMatmul::apply(rows, matrices, counts)
                                                 : grouped_matmul_plain(rows, matrices, counts);
}

}  // namespace hone::ops
