#include "hone/ops/attention/qk_norm_rope.h"

#include "hone/device/autograd.h"
#include "hone/ops/cuda/qk_norm_rope.h"
#include "hone/ops/cuda/training.h"
#include "hone/ops/fused_operators.h"
#include "hone/ops/rms_norm.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Inputs: queries, keys, values, and the weights of both norms.
class CudaQkNormRope : public torch::autograd::Function<CudaQkNormRope> {
 public:
  static variable_list forward(AutogradContext* ctx, at::TensorList inputs, const RopeTable& table, double eps) {
    const auto &q = inputs[0], &k = inputs[1];
    auto queries = cuda::norm_rope_heads(q, inputs[3], eps, table.cos, table.sin);
    auto keys = cuda::norm_rope_heads(k, inputs[4], eps, table.cos, table.sin);
    ctx->save_for_backward({q, k, inputs[3], inputs[4], queries.rstd, keys.rstd, table.cos, table.sin});
    return {queries.y, keys.y, inputs[2]};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &cos = saved[6], &sin = saved[7];
    const int64_t q_width = saved[0].size(1), k_width = saved[1].size(1), v_width = grads[2].size(1);
    auto all = at::empty({saved[0].size(0), q_width + k_width + v_width}, saved[0].options());
    auto dq = all.narrow(1, 0, q_width), dk = all.narrow(1, q_width, k_width), dv = all.narrow(1, q_width + k_width, v_width);
    auto back = [&](size_t i, const Tensor& to) {
      const auto dy = cuda::supports_rows(grads[i]) ? grads[i] : grads[i].contiguous();
      return cuda::norm_rope_heads_backward(dy, saved[i], saved[2 + i], saved[4 + i], cos, sin, to, saved[2 + i].requires_grad());
    };
    auto dq_weight = back(0, dq), dk_weight = back(1, dk);
    dv.copy_(grads[2]);
    return {dq, dk, dv, dq_weight, dk_weight, Tensor(), Tensor()};
  }
};

Tensor norm_heads(const Tensor& x, const Tensor& weight, double eps) {
  return rms_norm(x.view({x.size(0), -1, weight.size(0)}), weight, eps).reshape(x.sizes());
}

}  // namespace

QueriesKeysValues qk_norm_rope_plain(const QueriesKeysValues& heads, const QkNorm& norms, const RopeTable& table) {
  auto rotated = [&](const Tensor& x, const Tensor& weight) {
    const auto by_head = x.reshape({x.size(0), -1, weight.size(0)});
    return rope_plain(rms_norm_plain(by_head, weight, norms.eps).reshape(x.sizes()), table);
  };
  return {rotated(heads.q, norms.q), rotated(heads.k, norms.k), heads.v};
}

QueriesKeysValues qk_norm_rope(const QueriesKeysValues& heads, const QkNorm& norms, const RopeTable& table) {
  if (fused_operators().rms_norm && fused_operators().rope && cuda::supports_norm_rope(heads.q, norms.q, table.cos) &&
      cuda::supports_norm_rope(heads.k, norms.k, table.cos)) {
    const TensorList inputs{heads.q, heads.k, heads.v, norms.q, norms.k};
    auto found = CudaQkNormRope::apply(at::TensorList(inputs), table, norms.eps);
    return {found[0], found[1], found[2]};
  }
  return {rope(norm_heads(heads.q, norms.q, norms.eps), table), rope(norm_heads(heads.k, norms.k, norms.eps), table), heads.v};
}

}  // namespace hone::ops
