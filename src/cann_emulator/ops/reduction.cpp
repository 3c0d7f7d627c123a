// Reductions.
#include "cann_emulator/ops/operator.h"

using namespace cann;

namespace {

at::OptionalIntArrayRef all_when_empty(const Ints& dims) {
  return dims.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(dims);
}

Tensor any_of(Tensor x, const Ints& dims, bool keep) {
  x = x.to(at::kBool);
  if (dims.empty()) return at::any(x);
  return at::any(x, at::OptionalIntArrayRef(dims), keep);
}

Tensor all_of(Tensor x, const Ints& dims, bool keep) {
  x = x.to(at::kBool);
  if (dims.empty()) return at::all(x);
  return at::all(x, at::OptionalIntArrayRef(dims), keep);
}

}  // namespace

ACLNN(ReduceSum, [](Tensor x, Ints dims, bool keep, DataType type, Tensor out) {
  store(out, at::sum(x, all_when_empty(dims), keep, type.type));
})
ACLNN(Mean, [](Tensor x, Ints dims, bool keep, DataType type, Tensor out) {
  store(out, at::mean(x, all_when_empty(dims), keep, type.type));
})
ACLNN(Prod, [](Tensor x, DataType type, Tensor out) { store(out, at::prod(x, type.type)); })
ACLNN(ProdDim, [](Tensor x, int64_t dim, bool keep, DataType type, Tensor out) { store(out, at::prod(x, dim, keep, type.type)); })
ACLNN(Amax, [](Tensor x, Ints dims, bool keep, Tensor out) { store(out, at::amax(x, dims, keep)); })
ACLNN(Amin, [](Tensor x, Ints dims, bool keep, Tensor out) { store(out, at::amin(x, dims, keep)); })
ACLNN(Max, [](Tensor x, Tensor out) { store(out, at::max(x)); })
ACLNN(Min, [](Tensor x, Tensor out) { store(out, at::min(x)); })
ACLNN(MaxDim, [](Tensor x, int64_t dim, bool keep, Tensor values, Tensor indices) {
  auto [value, index] = at::max(x, dim, keep);
  store(values, value), store(indices, index);
})
ACLNN(MinDim, [](Tensor x, int64_t dim, bool keep, Tensor values, Tensor indices) {
  auto [value, index] = at::min(x, dim, keep);
  store(values, value), store(indices, index);
})
ACLNN(Aminmax, [](Tensor x, Ints dims, bool keep, Tensor least, Tensor most) {
  store(least, at::amin(x, dims, keep)), store(most, at::amax(x, dims, keep));
})
ACLNN(ArgMax, [](Tensor x, int64_t dim, bool keep, Tensor out) { store(out, at::argmax(x, dim, keep)); })
ACLNN(ArgMin, [](Tensor x, int64_t dim, bool keep, Tensor out) { store(out, at::argmin(x, dim, keep)); })
ACLNN(Any, [](Tensor x, Ints dims, bool keep, Tensor out) { store(out, any_of(x, dims, keep)); })
ACLNN(All, [](Tensor x, Ints dims, bool keep, Tensor out) { store(out, all_of(x, dims, keep)); })
ACLNN(Cumsum, [](Tensor x, int64_t dim, DataType type, Tensor out) { store(out, at::cumsum(x, dim, type.type)); })
ACLNN(CumsumV2, [](Tensor x, int64_t dim, bool, bool, Tensor out) { store(out, at::cumsum(x, dim)); })
ACLNN(LogSumExp, [](Tensor x, Ints dims, bool keep, Tensor out) { store(out, at::logsumexp(x, dims, keep)); })
ACLNN(Norm, [](Tensor x, Scalar p, Ints dims, bool keep, Tensor out) { store(out, at::norm(x, p, dims, keep)); })
ACLNN(LinalgVectorNorm, [](Tensor x, Scalar order, OptionalInts dims, bool keep, DataType type, Tensor out) {
  auto where = dims && !dims->empty() ? at::OptionalIntArrayRef(*dims) : at::OptionalIntArrayRef();
  store(out, at::linalg_vector_norm(x, order, where, keep, type.type));
})
ACLNN(Std, [](Tensor x, Ints dims, int64_t correction, bool keep, Tensor out) {
  store(out, at::std(x, all_when_empty(dims), std::optional<Scalar>(correction), keep));
})
ACLNN(Var, [](Tensor x, Ints dims, bool unbiased, bool keep, Tensor out) {
  store(out, at::var(x, all_when_empty(dims), unbiased, keep));
})
ACLNN(VarCorrection, [](Tensor x, Ints dims, int64_t correction, bool keep, Tensor out) {
  store(out, at::var(x, all_when_empty(dims), std::optional<Scalar>(correction), keep));
})
ACLNN(Bincount, [](Tensor x, Tensor weights, int64_t least, Tensor out) {
  store(out, at::bincount(x, weights.defined() ? std::optional(weights) : std::nullopt, least));
})
