// Unary and binary elementwise operators.
#include "cann_emulator/ops/operator.h"

using namespace cann;

#define UNARY(NAME, FUNCTION)                                        \
  ACLNN(NAME, [](Tensor x, Tensor out) { store(out, FUNCTION(x)); }) \
  ACLNN(Inplace##NAME, [](Tensor x) { x.copy_(FUNCTION(x)); })

UNARY(Abs, at::abs)
UNARY(Neg, at::neg)
UNARY(Sqrt, at::sqrt)
UNARY(Rsqrt, at::rsqrt)
UNARY(Reciprocal, at::reciprocal)
UNARY(Exp, at::exp)
UNARY(Exp2, at::exp2)
UNARY(Expm1, at::expm1)
UNARY(Log, at::log)
UNARY(Log2, at::log2)
UNARY(Log10, at::log10)
UNARY(Log1p, at::log1p)
UNARY(Sin, at::sin)
UNARY(Cos, at::cos)
UNARY(Tan, at::tan)
UNARY(Tanh, at::tanh)
UNARY(Erf, at::erf)
UNARY(Erfinv, at::erfinv)
UNARY(Sigmoid, at::sigmoid)
UNARY(Relu, at::relu)
UNARY(Floor, at::floor)
UNARY(Ceil, at::ceil)
UNARY(Round, at::round)
UNARY(Trunc, at::trunc)
UNARY(Sign, at::sign)
UNARY(LogicalNot, at::logical_not)
UNARY(BitwiseNot, at::bitwise_not)
ACLNN(IsFinite, [](Tensor x, Tensor out) { store(out, at::isfinite(x)); })
ACLNN(IsInf, [](Tensor x, Tensor out) { store(out, at::isinf(x)); })
ACLNN(NanToNum, [](Tensor x, float nan, float most, float least, Tensor out) { store(out, at::nan_to_num(x, nan, most, least)); })

ACLNN(Add, [](Tensor a, Tensor b, Scalar alpha, Tensor out) { store(out, at::add(a, b, alpha)); })
ACLNN(Adds, [](Tensor a, Scalar b, Scalar alpha, Tensor out) { store(out, at::add(a, b, alpha)); })
ACLNN(AddV3, [](Scalar a, Tensor b, Scalar alpha, Tensor out) { store(out, at::scalar_tensor(a, b.options()).add(b, alpha)); })
ACLNN(InplaceAdd, [](Tensor a, Tensor b, Scalar alpha) { a.add_(b, alpha); })
ACLNN(InplaceAdds, [](Tensor a, Scalar b, Scalar alpha) { a.add_(b, alpha); })
ACLNN(Sub, [](Tensor a, Tensor b, Scalar alpha, Tensor out) { store(out, at::sub(a, b, alpha)); })
ACLNN(Subs, [](Tensor a, Scalar b, Scalar alpha, Tensor out) { store(out, at::sub(a, b, alpha)); })
ACLNN(InplaceSub, [](Tensor a, Tensor b, Scalar alpha) { a.sub_(b, alpha); })
ACLNN(InplaceSubs, [](Tensor a, Scalar b, Scalar alpha) { a.sub_(b, alpha); })
ACLNN(Rsub, [](Tensor a, Tensor b, Scalar alpha, Tensor out) { store(out, at::rsub(a, b, alpha)); })
ACLNN(Rsubs, [](Tensor a, Scalar b, Scalar alpha, Tensor out) { store(out, at::rsub(a, b, alpha)); })
ACLNN(Mul, [](Tensor a, Tensor b, Tensor out) { store(out, at::mul(a, b)); })
ACLNN(Muls, [](Tensor a, Scalar b, Tensor out) { store(out, at::mul(a, b)); })
ACLNN(InplaceMul, [](Tensor a, Tensor b) { a.mul_(b); })
ACLNN(InplaceMuls, [](Tensor a, Scalar b) { a.mul_(b); })
ACLNN(Div, [](Tensor a, Tensor b, Tensor out) { store(out, at::div(a, b)); })
ACLNN(Divs, [](Tensor a, Scalar b, Tensor out) { store(out, at::div(a, b)); })
ACLNN(InplaceDiv, [](Tensor a, Tensor b) { a.div_(b); })
ACLNN(InplaceDivs, [](Tensor a, Scalar b) { a.div_(b); })

namespace {
const char* rounding(int mode) { return mode == 1 ? "trunc" : "floor"; }
}  // namespace
ACLNN(DivMod, [](Tensor a, Tensor b, int mode, Tensor out) { store(out, mode ? at::div(a, b, rounding(mode)) : at::div(a, b)); })
ACLNN(DivMods, [](Tensor a, Scalar b, int mode, Tensor out) { store(out, mode ? at::div(a, b, rounding(mode)) : at::div(a, b)); })
ACLNN(InplaceDivMod, [](Tensor a, Tensor b, int mode) { a.copy_(mode ? at::div(a, b, rounding(mode)) : at::div(a, b)); })
ACLNN(InplaceDivMods, [](Tensor a, Scalar b, int mode) { a.copy_(mode ? at::div(a, b, rounding(mode)) : at::div(a, b)); })
ACLNN(FloorDivide, [](Tensor a, Tensor b, Tensor out) { store(out, at::floor_divide(a, b)); })
ACLNN(FloorDivides, [](Tensor a, Scalar b, Tensor out) { store(out, at::floor_divide(a, b)); })
ACLNN(InplaceFloorDivide, [](Tensor a, Tensor b) { a.floor_divide_(b); })
ACLNN(InplaceFloorDivides, [](Tensor a, Scalar b) { a.floor_divide_(b); })
ACLNN(RemainderTensorScalar, [](Tensor a, Scalar b, Tensor out) { store(out, at::remainder(a, b)); })
ACLNN(RemainderTensorTensor, [](Tensor a, Tensor b, Tensor out) { store(out, at::remainder(a, b)); })
ACLNN(InplaceRemainderTensorScalar, [](Tensor a, Scalar b) { a.remainder_(b); })
ACLNN(FmodScalar, [](Tensor a, Scalar b, Tensor out) { store(out, at::fmod(a, b)); })

namespace {
// Cards behave this way although the documentation differs: one count for all tensors, or one per tensor.
void check_shift(const Tensor& x, const Tensor& bits) {
  if (bits.dim() && bits.sizes() != x.sizes())
    throw BadParameter(kParameterInvalid, c10::str("shiftBits of shape ", bits.sizes(), " beside input of shape ", x.sizes()));
}
}  // namespace
ACLNN(RightShift, [](Tensor x, Tensor bits, Tensor out) { check_shift(x, bits), store(out, at::bitwise_right_shift(x, bits)); })
ACLNN(LeftShift, [](Tensor x, Tensor bits, Tensor out) { check_shift(x, bits), store(out, at::bitwise_left_shift(x, bits)); })
ACLNN(LeftShifts, [](Tensor x, Scalar bits, Tensor out) { store(out, at::bitwise_left_shift(x, bits)); })

ACLNN(PowTensorScalar, [](Tensor a, Scalar b, Tensor out) { store(out, at::pow(a, b)); })
ACLNN(PowScalarTensor, [](Scalar a, Tensor b, Tensor out) { store(out, at::pow(a, b)); })
ACLNN(PowTensorTensor, [](Tensor a, Tensor b, Tensor out) { store(out, at::pow(a, b)); })
ACLNN(InplacePowTensorScalar, [](Tensor a, Scalar b) { a.pow_(b); })
ACLNN(InplacePowTensorTensor, [](Tensor a, Tensor b) { a.pow_(b); })
ACLNN(Maximum, [](Tensor a, Tensor b, Tensor out) { store(out, at::maximum(a, b)); })
ACLNN(Minimum, [](Tensor a, Tensor b, Tensor out) { store(out, at::minimum(a, b)); })
ACLNN(Atan2, [](Tensor a, Tensor b, Tensor out) { store(out, at::atan2(a, b)); })
ACLNN(LogAddExp, [](Tensor a, Tensor b, Tensor out) { store(out, at::logaddexp(a, b)); })

ACLNN(Clamp, [](Tensor x, OptionalScalar least, OptionalScalar most, Tensor out) { store(out, at::clamp(x, least, most)); })
ACLNN(ClampMin, [](Tensor x, Scalar least, Tensor out) { store(out, at::clamp_min(x, least)); })
ACLNN(ClampMax, [](Tensor x, Scalar most, Tensor out) { store(out, at::clamp_max(x, most)); })
ACLNN(InplaceClampMin, [](Tensor x, Scalar least) { x.clamp_min_(least); })
ACLNN(InplaceClampMax, [](Tensor x, Scalar most) { x.clamp_max_(most); })
ACLNN(ClampTensor, [](Tensor x, Tensor least, Tensor most, Tensor out) {
  auto maybe = [](const Tensor& bound) { return bound.defined() ? std::optional(bound) : std::nullopt; };
  store(out, at::clamp(x, maybe(least), maybe(most)));
})
ACLNN(ClampMinTensor, [](Tensor x, Tensor least, Tensor out) { store(out, at::clamp_min(x, least)); })
ACLNN(ClampMaxTensor, [](Tensor x, Tensor most, Tensor out) { store(out, at::clamp_max(x, most)); })

ACLNN(Addcmul, [](Tensor x, Tensor a, Tensor b, Scalar value, Tensor out) { store(out, at::addcmul(x, a, b, value)); })
ACLNN(Addcdiv, [](Tensor x, Tensor a, Tensor b, Scalar value, Tensor out) { store(out, at::addcdiv(x, a, b, value)); })
ACLNN(InplaceAddcmul, [](Tensor x, Tensor a, Tensor b, Scalar value) { x.addcmul_(a, b, value); })
ACLNN(InplaceAddcdiv, [](Tensor x, Tensor a, Tensor b, Scalar value) { x.addcdiv_(a, b, value); })
ACLNN(Lerps, [](Tensor a, Tensor b, Scalar weight, Tensor out) { store(out, at::lerp(a, b, weight)); })
ACLNN(Lerp, [](Tensor a, Tensor b, Tensor weight, Tensor out) { store(out, at::lerp(a, b, weight)); })
ACLNN(InplaceLerps, [](Tensor a, Tensor b, Scalar weight) { a.lerp_(b, weight); })
ACLNN(InplaceLerp, [](Tensor a, Tensor b, Tensor weight) { a.lerp_(b, weight); })
