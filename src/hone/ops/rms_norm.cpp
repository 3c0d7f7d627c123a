#include "hone/ops/rms_norm.h"

#include "hone/device/autograd.h"
#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/rms_norm.h"
#include "hone/ops/cuda/norm.h"
#include "hone/ops/fused_operators.h"
#include "hone/ops/npu/boxed.h"
#include "hone/ops/npu/fused.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct NormedRows {
  Tensor rows, y, rstd;
};
NormedRows norm_rows(const Tensor& x, const Tensor& weight, double eps) {
  auto rows = x.contiguous();
  auto y = at::empty_like(rows), rstd = at::empty({rows.numel() / rows.size(-1)}, rows.options().dtype(at::kFloat));
  cpu::rms_norm(rows, weight, eps, y, rstd);
  return {rows, y, rstd};
}

class RmsNorm : public torch::autograd::Function<RmsNorm> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight, double eps) {
    auto found = norm_rows(x, weight, eps);
    ctx->save_for_backward({found.rows, weight, found.rstd});
    return found.y;
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

// Inputs: x, weight, and an optional residual. Outputs: the norm, and the sum if there is a residual.
class CudaRmsNorm : public torch::autograd::Function<CudaRmsNorm> {
 public:
  static variable_list forward(AutogradContext* ctx, at::TensorList inputs, double eps) {
    const bool adds = inputs.size() > 2;
    auto found = cuda::rms_norm_rows(inputs[0], adds ? inputs[2] : Tensor(), inputs[1], eps);
    ctx->save_for_backward({adds ? found.sum : inputs[0], inputs[1], found.rstd});
    ctx->saved_data["adds"] = adds;
    return adds ? variable_list{found.y, found.sum} : variable_list{found.y};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    auto saved = ctx->get_saved_variables();
    const bool adds = ctx->saved_data["adds"].toBool();
    auto found = cuda::rms_norm_rows_backward(grads[0].contiguous(), saved[0], saved[1], saved[2],
                                              adds ? grads[1].contiguous() : Tensor(), saved[1].requires_grad());
    variable_list result{found.x, found.weight};
    if (adds) result.push_back(found.x);
    result.emplace_back();  // for eps
    return result;
  }
};

}  // namespace

Tensor rms_norm_plain(const Tensor& x, const Tensor& weight, double eps) {
  auto x32 = x.to(at::kFloat);
  return (x32 * (x32.square().mean(-1, true) + eps).rsqrt()).to(x.scalar_type()) * weight;
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  if (!fused_operators().rms_norm) return rms_norm_plain(x, weight, eps);
  if (cpu::supports(x) && x.scalar_type() == weight.scalar_type() && x.numel() > 0)
    return at::GradMode::is_enabled() ? RmsNorm::apply(x, weight, eps) : norm_rows(x, weight, eps).y;
  if (cuda::supports_norm(x, weight)) {
    TensorList inputs{x, weight};
    return CudaRmsNorm::apply(at::TensorList(inputs), eps)[0];
  }
  if (x.is_cuda() && x.scalar_type() == weight.scalar_type()) return at::rms_norm(x, weight.sizes(), weight, eps);
  if (npu::supports(x, "npu_rms_norm") && x.scalar_type() == weight.scalar_type()) return npu::rms_norm(x, weight, eps);
  return rms_norm_plain(x, weight, eps);
}

NormedSum add_rms_norm_plain(const Tensor& x, const Tensor& added, const Tensor& weight, double eps) {
  auto sum = x + added;
  return {sum, rms_norm_plain(sum, weight, eps)};
}

NormedSum add_rms_norm(const Tensor& x, const Tensor& added, const Tensor& weight, double eps) {
  const bool alike = added.is_contiguous() && added.scalar_type() == x.scalar_type() && added.sizes() == x.sizes();
  if (fused_operators().rms_norm && alike && cuda::supports_norm(x, weight)) {
    TensorList inputs{x, weight, added};
    auto found = CudaRmsNorm::apply(at::TensorList(inputs), eps);
    return {found[1], found[0]};
  }
  auto sum = x + added;
  return {sum, rms_norm(sum, weight, eps)};
}

}  // namespace hone::ops
