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

// x, or x + added where that is defined, and its norm. On a CPU there is no rstd unless it `trains`, and no offset.
cuda::NormedRows norm_rows(const Tensor& x, const Tensor& added, const Tensor& weight, double eps, bool trains,
                           double offset = 0) {
  if (x.is_cuda()) return cuda::rms_norm_rows(x, added, weight, eps, offset);
  auto y = at::empty(x.sizes(), x.options()), sum = added.defined() ? at::empty(x.sizes(), x.options()) : Tensor();
  auto rstd = trains ? at::empty({x.numel() / x.size(-1)}, x.options().dtype(at::kFloat)) : Tensor();
  cpu::rms_norm(x, added, weight, eps, sum, y, rstd);
  return {sum, y, rstd};
}

cuda::NormGradients norm_gradients(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd,
                                   const Tensor& dsum, double offset) {
  if (x.is_cuda()) return cuda::rms_norm_rows_backward(dy, x, weight, rstd, dsum, offset, weight.requires_grad());
  auto dx = at::empty_like(dy), dweight = weight.requires_grad() ? at::empty_like(weight) : Tensor();
  cpu::rms_norm_backward(dy, x, weight, rstd, dsum, dx, dweight);
  return {dx, dweight};
}

// Inputs: x, weight, and an optional residual; on a GPU `offset` is added to the weight. Outputs: the norm, and the sum if there
// is a residual.
class RmsNorm : public torch::autograd::Function<RmsNorm> {
 public:
  static variable_list forward(AutogradContext* ctx, at::TensorList inputs, double eps, double offset) {
    const bool adds = inputs.size() > 2;
    auto found = norm_rows(inputs[0], adds ? inputs[2] : Tensor(), inputs[1], eps, /*trains=*/true, offset);
    ctx->save_for_backward({adds ? found.sum : inputs[0], inputs[1], found.rstd});
    ctx->saved_data["adds"] = adds;
    ctx->saved_data["offset"] = offset;
    return adds ? variable_list{found.y, found.sum} : variable_list{found.y};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    auto saved = ctx->get_saved_variables();
    const bool adds = ctx->saved_data["adds"].toBool();
    auto found = norm_gradients(grads[0].contiguous(), saved[0], saved[1], saved[2], adds ? grads[1].contiguous() : Tensor(),
                                ctx->saved_data["offset"].toDouble());
    variable_list result{found.x, found.weight};
    if (adds) result.push_back(found.x);
    result.emplace_back();  // for eps
    result.emplace_back();  // for the offset
    return result;
  }
};

bool supports_on_cpu(const Tensor& x, const Tensor& weight) {
  return cpu::supports(x) && x.scalar_type() == weight.scalar_type() && x.numel() > 0;
}

}  // namespace

Tensor rms_norm_plain(const Tensor& x, const Tensor& weight, double eps) {
  auto x32 = x.to(at::kFloat);
  return (x32 * (x32.square().mean(-1, true) + eps).rsqrt()).to(x.scalar_type()) * weight;
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  if (!fused_operators().rms_norm) return rms_norm_plain(x, weight, eps);
  if (supports_on_cpu(x, weight) || cuda::supports_norm(x, weight)) {
    TensorList inputs{x.is_cpu() ? x.contiguous() : x, weight};
    if (x.is_cpu() && !at::GradMode::is_enabled()) return norm_rows(inputs[0], {}, weight, eps, /*trains=*/false).y;
    return RmsNorm::apply(at::TensorList(inputs), eps, 0.0)[0];
  }
  if (x.is_cuda() && x.scalar_type() == weight.scalar_type()) return at::rms_norm(x, weight.sizes(), weight, eps);
  if (npu::supports(x, "npu_rms_norm") && x.scalar_type() == weight.scalar_type()) return npu::rms_norm(x, weight, eps);
  return rms_norm_plain(x, weight, eps);
}

Tensor zero_centered_rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  const TensorList inputs{x, weight};
  if (fused_operators().rms_norm && cuda::supports_norm(x, weight)) return RmsNorm::apply(at::TensorList(inputs), eps, 1.0)[0];
  return rms_norm(x.to(at::kFloat), weight.to(at::kFloat) + 1, eps).to(x.scalar_type());
}

NormedSum add_rms_norm_plain(const Tensor& x, const Tensor& added, const Tensor& weight, double eps) {
  auto sum = x + added;
  return {sum, rms_norm_plain(sum, weight, eps)};
}

NormedSum add_rms_norm(const Tensor& x, const Tensor& added, const Tensor& weight, double eps) {
  const bool alike = added.is_contiguous() && added.scalar_type() == x.scalar_type() && added.sizes() == x.sizes();
  if (fused_operators().rms_norm && alike &&
      ((supports_on_cpu(x, weight) && x.is_contiguous()) || cuda::supports_norm(x, weight))) {
    if (x.is_cpu() && !at::GradMode::is_enabled()) {
      auto found = norm_rows(x, added, weight, eps, /*trains=*/false);
      return {found.sum, found.y};
    }
    TensorList inputs{x, weight, added};
    auto found = RmsNorm::apply(at::TensorList(inputs), eps, 0.0);
    return {found[1], found[0]};
  }
  auto sum = x + added;
  return {sum, rms_norm(sum, weight, eps)};
}

NormedSum add_zero_centered_rms_norm(const Tensor& x, const Tensor& added, const Tensor& weight, double eps) {
  const bool alike = added.is_contiguous() && added.scalar_type() == x.scalar_type() && added.sizes() == x.sizes();
  if (fused_operators().rms_norm && alike && cuda::supports_norm(x, weight)) {
    const TensorList inputs{x, weight, added};
    auto found = RmsNorm::apply(at::TensorList(inputs), eps, 1.0);
    return {found[1], found[0]};
  }
  auto sum = x + added;
  return {sum, zero_centered_rms_norm(sum, weight, eps)};
}

}  // namespace hone::ops
