// Comparisons and logical operators.
#include "cann_emulator/ops/operator.h"

using namespace cann;

#define COMPARISON(NAME, FUNCTION)                                                        \
  ACLNN(NAME##Scalar, [](Tensor a, Scalar b, Tensor out) { store(out, FUNCTION(a, b)); }) \
  ACLNN(NAME##Tensor, [](Tensor a, Tensor b, Tensor out) { store(out, FUNCTION(a, b)); }) \
  ACLNN(Inplace##NAME##Scalar, [](Tensor a, Scalar b) { a.copy_(FUNCTION(a, b)); })       \
  ACLNN(Inplace##NAME##Tensor, [](Tensor a, Tensor b) { a.copy_(FUNCTION(a, b)); })

COMPARISON(Eq, at::eq)
COMPARISON(Ne, at::ne)
COMPARISON(Lt, at::lt)
COMPARISON(Le, at::le)
COMPARISON(Gt, at::gt)
COMPARISON(Ge, at::ge)
COMPARISON(BitwiseAnd, at::bitwise_and)
COMPARISON(BitwiseOr, at::bitwise_or)
COMPARISON(BitwiseXor, at::bitwise_xor)

ACLNN(LogicalAnd, [](Tensor a, Tensor b, Tensor out) { store(out, at::logical_and(a, b)); })
ACLNN(LogicalOr, [](Tensor a, Tensor b, Tensor out) { store(out, at::logical_or(a, b)); })
ACLNN(LogicalXor, [](Tensor a, Tensor b, Tensor out) { store(out, at::logical_xor(a, b)); })
ACLNN(InplaceLogicalAnd, [](Tensor a, Tensor b) { a.logical_and_(b); })
ACLNN(InplaceLogicalOr, [](Tensor a, Tensor b) { a.logical_or_(b); })
ACLNN(Equal, [](Tensor a, Tensor b, Tensor out) { out.fill_(at::equal(a, b)); })
ACLNN(IsClose, [](Tensor a, Tensor b, double relative, double absolute, bool nan, Tensor out) {
  store(out, at::isclose(a, b, relative, absolute, nan));
})
ACLNN(SWhere, [](Tensor condition, Tensor a, Tensor b, Tensor out) { store(out, at::where(condition.to(at::kBool), a, b)); })
ACLNN(InplaceMaskedFillScalar, [](Tensor x, Tensor mask, Scalar value) { x.masked_fill_(mask, value); })
ACLNN(InplaceMaskedFillTensor, [](Tensor x, Tensor mask, Tensor value) { x.masked_fill_(mask, value); })
ACLNN(InplaceMaskedScatter, [](Tensor x, Tensor mask, Tensor source) { x.masked_scatter_(mask.to(at::kBool), source); })
