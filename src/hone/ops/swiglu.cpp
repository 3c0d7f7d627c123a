#include "hone/ops/swiglu.h"

#include "hone/device/autograd.h"
#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/swiglu.h"
#include "hone/ops/cuda/fused.h"
#include "hone/ops/cuda/training.h"
#include "hone/ops/fused_operators.h"
#include "hone/ops/npu/boxed.h"
#include "hone/ops/npu/fused.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor forward_values(const Tensor& gate, const Tensor& up) {
  if (npu::supports(gate, "npu_swiglu")) return npu::swiglu(gate, up);
  if (!cpu::supports(gate)) return at::silu(gate).mul_(up);
  auto y = at::empty(gate.sizes(), gate.options());
  cpu::swiglu(gate, up, y);
  return y;
}

class Swiglu : public torch::autograd::Function<Swiglu> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& gate, const Tensor& up) {
    auto g = gate.contiguous(), u = up.contiguous();
    ctx->save_for_backward({g, u});
    return forward_values(g, u);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    auto saved = ctx->get_saved_variables();
    auto [dgate, dup] = swiglu_backward(grads[0], saved[0], saved[1]);
    return {dgate, dup};
  }
};

// On a GPU, halves are read and their gradients written in place.
class SwigluHalves : public torch::autograd::Function<SwigluHalves> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& both) {
    ctx->save_for_backward({both});
    auto halves = both.chunk(2, 1);
    return cuda::swiglu(halves[0], halves[1]);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto both = ctx->get_saved_variables()[0];
    auto dboth = at::empty_like(both);
    auto halves = both.chunk(2, 1), dhalves = dboth.chunk(2, 1);
    cuda::swiglu_backward(grads[0].contiguous(), halves[0], halves[1], dhalves[0], dhalves[1], {});
    return {dboth};
  }
};

}  // namespace

Tensor swiglu_halves(const Tensor& both) {
  if (fused_operators().swiglu && cuda::supports_rows(both) && both.size(1) % 16 == 0)
    return SwigluHalves::apply(both.contiguous());
  if (fused_operators().swiglu && !at::GradMode::is_enabled() && cpu::supports(both) && both.dim() == 2 && both.is_contiguous()) {
    auto y = at::empty({both.size(0), both.size(1) / 2}, both.options());
    cpu::swiglu_halves(both, y);
    return y;
  }
  auto halves = both.chunk(2, 1);
  return swiglu(halves[0], halves[1]);
}

Tensor swiglu_plain(const Tensor& gate, const Tensor& up) { return at::silu(gate) * up; }

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  if (!fused_operators().swiglu) return swiglu_plain(gate, up);
  if (cuda::supports_fused(gate) && gate.dim() == 2) return cuda::swiglu(gate, up);
  if (!at::GradMode::is_enabled() && cpu::supports_halves(gate, up)) return forward_values(gate, up);
  return Swiglu::apply(gate, up);
}

std::pair<Tensor, Tensor> swiglu_backward(const Tensor& dy, const Tensor& gate, const Tensor& up) {
  auto grad = dy.contiguous();
  if (npu::supports(gate, "npu_swiglu_backward")) return npu::swiglu_backward(grad, gate, up);
  if (!cpu::supports(gate)) return {at::silu_backward(grad * up, gate), at::silu(gate).mul_(grad)};
  auto dgate = at::empty_like(gate), dup = at::empty_like(up);
  cpu::swiglu_backward(grad, gate, up, dgate, dup);
  return {dgate, dup};
}

}  // namespace hone::ops
