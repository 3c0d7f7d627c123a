#include "hone/ops/rms_norm.h"

#include "hone/device/autograd.h"
#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/rms_norm.h"
#include "hone/ops/fused_operators.h"
#include "hone/ops/npu/boxed.h"
#include "hone/ops/npu/fused.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class RmsNorm : public torch::autograd::Function<RmsNorm> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight, double eps) {
    auto rows = x.contiguous();
    auto y = at::empty_like(rows);
    auto rstd = at::empty({rows.numel() / rows.size(-1)}, rows.options().dtype(at::kFloat));
    cpu::rms_norm(rows, weight, eps, y, rstd);
    ctx->save_for_backward({rows, weight, rstd});
    return y;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    auto saved = ctx->get_saved_variables();
    auto dy = grads[0].contiguous();
    auto dx = at::empty_like(dy);
    Tensor dweight = saved[1].requires_grad() ? at::empty_like(saved[1]) : Tensor();
    cpu::rms_norm_backward(dy, saved[0], saved[1], saved[2], dx, dweight);
    return {dx, dweight, Tensor()};
  }
};

}  // namespace

Tensor rms_norm_plain(const Tensor& x, const Tensor& weight, double eps) {
  auto x32 = x.to(at::kFloat);
  return (x32 * (x32.square().mean(-1, true) + eps).rsqrt()).to(x.scalar_type()) * weight;
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  if (!fused_operators().rms_norm) return rms_norm_plain(x, weight, eps);
  if (cpu::supports(x) && x.scalar_type() == weight.scalar_type() && x.numel() > 0) return RmsNorm::apply(x, weight, eps);
  if (x.is_cuda() && x.scalar_type() == weight.scalar_type())
    return std::get<0>(at::_fused_rms_norm(x, weight.sizes(), weight, eps));
  if (npu::serves(x, "npu_rms_norm") && x.scalar_type() == weight.scalar_type()) return npu::rms_norm(x, weight, eps);
  return rms_norm_plain(x, weight, eps);
}

}  // namespace hone::ops
