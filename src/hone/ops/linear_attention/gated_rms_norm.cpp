#include "hone/ops/linear_attention/gated_rms_norm.h"

#include "hone/device/autograd.h"
#include "hone/ops/cuda/delta_net.h"
#include "hone/ops/rms_norm.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class CudaGatedNorm : public torch::autograd::Function<CudaGatedNorm> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& z, const Tensor& weight, double eps) {
    ctx->save_for_backward({x, z, weight});
    ctx->saved_data["eps"] = eps;
    return cuda::gated_norm(x, z, weight, eps);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const auto found = cuda::gated_norm_backward(grads[0].contiguous(), saved[0], saved[1], saved[2],
                                                 ctx->saved_data["eps"].toDouble(), saved[2].requires_grad());
    return {found.x, found.z, found.weight, Tensor()};
  }
};

}  // namespace

Tensor gated_rms_norm_plain(const Tensor& x_thv, const Tensor& z_thv, const Tensor& weight, double eps) {
  return (rms_norm(x_thv, weight, eps) * at::silu(z_thv.to(at::kFloat))).to(x_thv.scalar_type());
}

Tensor gated_rms_norm(const Tensor& x_thv, const Tensor& z_thv, const Tensor& weight, double eps) {
  return cuda::supports_gated_norm(x_thv, z_thv, weight) ? CudaGatedNorm::apply(x_thv, z_thv, weight, eps)
                                                         : gated_rms_norm_plain(x_thv, z_thv, weight, eps);
}

}  // namespace hone::ops
