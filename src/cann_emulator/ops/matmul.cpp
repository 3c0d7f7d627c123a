// Matrix products and linear solvers. cube_math_type allows the cube unit lower precision for float32; the CPU always keeps it.
// 16-bit products are summed in float32 and rounded once, as on the cube unit; libtorch's 16-bit kernels are often scalar.
#include "cann_emulator/ops/operator.h"

using namespace cann;

namespace {

// The cube unit requires both matrices to have the same type.
void same_type(const Tensor& a, const Tensor& b) {
  if (a.scalar_type() != b.scalar_type())
    throw BadParameter(kParameterInvalid,
                       c10::str("matrices of types ", a.scalar_type(), " and ", b.scalar_type(), "; one is expected"));
  if (!at::isFloatingType(a.scalar_type()) || a.scalar_type() == at::kDouble)
    throw BadParameter(kParameterInvalid, c10::str("matrices of type ", a.scalar_type(), " are not supported by the cube unit"));
}

Tensor f32(const Tensor& x) { return x.to(at::kFloat); }

}  // namespace

ACLNN(Mm, [](Tensor a, Tensor b, Tensor out, int8_t) { same_type(a, b), store(out, at::mm(f32(a), f32(b))); })
ACLNN(Matmul, [](Tensor a, Tensor b, Tensor out, int8_t) { same_type(a, b), store(out, at::matmul(f32(a), f32(b))); })
ACLNN(BatchMatMul, [](Tensor a, Tensor b, Tensor out, int8_t) { same_type(a, b), store(out, at::bmm(f32(a), f32(b))); })
ACLNN(Addmm, [](Tensor x, Tensor a, Tensor b, Scalar beta, Scalar alpha, Tensor out, int8_t) {
  same_type(a, b), store(out, at::addmm(f32(x), f32(a), f32(b), beta, alpha));
})
ACLNN(InplaceAddmm, [](Tensor x, Tensor a, Tensor b, Scalar beta, Scalar alpha, int8_t) {
  same_type(a, b), x.copy_(at::addmm(f32(x), f32(a), f32(b), beta, alpha));
})
ACLNN(Baddbmm, [](Tensor x, Tensor a, Tensor b, Scalar beta, Scalar alpha, Tensor out, int8_t) {
  same_type(a, b), store(out, at::baddbmm(f32(x), f32(a), f32(b), beta, alpha));
})
ACLNN(InplaceBaddbmm, [](Tensor x, Tensor a, Tensor b, Scalar beta, Scalar alpha, int8_t) {
  same_type(a, b), x.copy_(at::baddbmm(f32(x), f32(a), f32(b), beta, alpha));
})
ACLNN(Mv, [](Tensor a, Tensor b, Tensor out, int8_t) { same_type(a, b), store(out, at::mv(f32(a), f32(b))); })
ACLNN(Addmv, [](Tensor x, Tensor a, Tensor b, Scalar alpha, Scalar beta, Tensor out, int8_t) {
  store(out, at::addmv(f32(x), f32(a), f32(b), beta, alpha));
})
ACLNN(Dot, [](Tensor a, Tensor b, Tensor out) { store(out, at::dot(f32(a), f32(b))); })
ACLNN(TriangularSolve, [](Tensor b, Tensor a, bool upper, bool transposed, bool unit, Tensor x, Tensor copy) {
  auto matrix = transposed ? a.mT() : a;
  store(x, at::linalg_solve_triangular(matrix, b, /*upper=*/upper != transposed, /*left=*/true, unit)), store(copy, a);
})
