// Operators over lists of tensors, and the fused optimizer step.
#include "cann_emulator/ops/operator.h"

using namespace cann;

namespace {

template <class Function>
void each(const Tensors& out, Function&& function) {
  for (size_t i = 0; i < out.size(); ++i) store(out[i], function(i));
}

}  // namespace

ACLNN(ForeachSqrt, [](Tensors x, Tensors out) { each(out, [&](size_t i) { return x[i].sqrt(); }); })
ACLNN(ForeachNeg, [](Tensors x, Tensors out) { each(out, [&](size_t i) { return x[i].neg(); }); })
ACLNN(ForeachReciprocal, [](Tensors x, Tensors out) { each(out, [&](size_t i) { return x[i].reciprocal(); }); })
ACLNN(ForeachCopy, [](Tensors from, Tensors to) { each(to, [&](size_t i) { return from[i]; }); })
ACLNN(ForeachZeroInplace, [](Tensors x) {
  for (auto& tensor : x) tensor.zero_();
})
ACLNN(ForeachNorm,
      [](Tensors x, Scalar order, Tensors out) { each(out, [&](size_t i) { return at::linalg_vector_norm(x[i], order); }); })
ACLNN(ForeachMulScalar, [](Tensors x, Tensor value, Tensors out) { each(out, [&](size_t i) { return x[i] * value; }); })
ACLNN(ForeachMulScalarV2, [](Tensors x, Scalar value, Tensors out) { each(out, [&](size_t i) { return x[i] * value; }); })
ACLNN(ForeachMulList, [](Tensors x, Tensors y, Tensors out) { each(out, [&](size_t i) { return x[i] * y[i]; }); })
ACLNN(ForeachMulScalarList, [](Tensors x, Scalars y, Tensors out) { each(out, [&](size_t i) { return x[i] * y[i]; }); })
ACLNN(ForeachDivScalarV2, [](Tensors x, Scalar value, Tensors out) { each(out, [&](size_t i) { return x[i] / value; }); })
ACLNN(ForeachDivScalarList, [](Tensors x, Scalars y, Tensors out) { each(out, [&](size_t i) { return x[i] / y[i]; }); })
ACLNN(ForeachDivList, [](Tensors x, Tensors y, Tensors out) { each(out, [&](size_t i) { return x[i] / y[i]; }); })
ACLNN(ForeachAddScalarV2, [](Tensors x, Scalar value, Tensors out) { each(out, [&](size_t i) { return x[i] + value; }); })
ACLNN(ForeachAddScalarList, [](Tensors x, Scalars y, Tensors out) { each(out, [&](size_t i) { return x[i] + y[i]; }); })
ACLNN(ForeachAddListV2,
      [](Tensors x, Tensors y, Scalar alpha, Tensors out) { each(out, [&](size_t i) { return x[i].add(y[i], alpha); }); })
ACLNN(ForeachSubScalarV2, [](Tensors x, Scalar value, Tensors out) { each(out, [&](size_t i) { return x[i] - value; }); })
ACLNN(ForeachSubListV2,
      [](Tensors x, Tensors y, Scalar alpha, Tensors out) { each(out, [&](size_t i) { return x[i].sub(y[i], alpha); }); })
ACLNN(ForeachAddcmulScalarV2, [](Tensors x, Tensors a, Tensors b, Scalar v, Tensors out) {
  each(out, [&](size_t i) { return at::addcmul(x[i], a[i], b[i], v); });
})
ACLNN(ForeachAddcdivScalarV2, [](Tensors x, Tensors a, Tensors b, Scalar v, Tensors out) {
  each(out, [&](size_t i) { return at::addcdiv(x[i], a[i], b[i], v); });
})
ACLNN(ForeachAddcdivScalarList, [](Tensors x, Tensors a, Tensors b, Scalars v, Tensors out) {
  each(out, [&](size_t i) { return at::addcdiv(x[i], a[i], b[i], v[i]); });
})
ACLNN(ForeachLerpScalar,
      [](Tensors x, Tensors y, Scalar weight, Tensors out) { each(out, [&](size_t i) { return at::lerp(x[i], y[i], weight); }); })
ACLNN(ForeachNonFiniteCheckAndUnscale, [](Tensors x, Tensor found, Tensor scale) {
  for (auto& grad : x) {
    if (!at::isfinite(grad).all().item<bool>()) found.fill_(1);
    grad.mul_(scale);
  }
})

// `step` counts finished steps; torch_npu passes the optimizer's step minus one.
ACLNN(ApplyAdamWV2, [](Tensor x, Tensor m, Tensor v, Tensor most, Tensor grad, Tensor step, float lr, float beta1, float beta2,
                       float decay, float eps, bool amsgrad, bool maximize) {
  auto g = (maximize ? grad.neg() : grad).to(m.scalar_type());
  double t = step.item<double>() + 1;
  x.mul_(1 - lr * decay);
  m.mul_(beta1).add_(g, 1 - beta1);
  v.mul_(beta2).addcmul_(g, g, 1 - beta2);
  auto second = v;
  if (amsgrad) most.copy_(at::maximum(most, v)), second = most;
  auto denominator = second.sqrt().div_(std::sqrt(1 - std::pow(double(beta2), t))).add_(eps);
  x.addcdiv_(m.to(x.scalar_type()), denominator.to(x.scalar_type()), -lr / (1 - std::pow(double(beta1), t)));
})
