// Reading and writing by index; sorting.
#include "cann_emulator/ops/operator.h"

using namespace cann;

namespace {

c10::List<std::optional<Tensor>> index_list(const Tensors& indices) {
  c10::List<std::optional<Tensor>> out;
  // torch_npu represents a full slice of a dimension by an empty tensor.
  for (const auto& index : indices) out.push_back(index.defined() && index.numel() > 0 ? std::optional(index) : std::nullopt);
  return out;
}

void scatter(Tensor x, int64_t dim, const Tensor& index, const Tensor& source, int64_t reduction) {
  if (reduction == 0)
    x.scatter_(dim, index, source);
  else
    x.scatter_(dim, index, source, reduction == 1 ? "add" : "multiply");
}

void scatter_value(Tensor x, int64_t dim, const Tensor& index, const Scalar& value, int64_t reduction) {
  if (reduction == 0)
    x.scatter_(dim, index, value);
  else
    x.scatter_(dim, index, value, reduction == 1 ? "add" : "multiply");
}

}  // namespace

ACLNN(Embedding, [](Tensor weight, Tensor indices, Tensor out) { store(out, at::embedding(weight, indices)); })
ACLNN(EmbeddingDenseBackward, [](Tensor grad, Tensor indices, int64_t count, int64_t padding, bool scale, Tensor out) {
  store(out, at::embedding_dense_backward(grad, indices.to(at::kLong), count, padding, scale));
})
ACLNN(Gather, [](Tensor x, int64_t dim, Tensor index, Tensor out) { store(out, at::gather(x, dim, index)); })
ACLNN(Index, [](Tensor x, Tensors indices, Tensor out) { store(out, at::index(x, index_list(indices))); })
ACLNN(IndexSelect, [](Tensor x, int64_t dim, Tensor index, Tensor out) { store(out, at::index_select(x, dim, index)); })
ACLNN(IndexPutImpl, [](Tensor x, Tensors indices, Tensor value, bool accumulate, bool) {
  x.index_put_(index_list(indices), value, accumulate);
})
ACLNN(IndexAdd, [](Tensor x, int64_t dim, Tensor index, Tensor source, Scalar alpha, Tensor out) {
  store(out, at::index_add(x, dim, index, source, alpha));
})
ACLNN(IndexAddV2, [](Tensor x, int64_t dim, Tensor index, Tensor source, Scalar alpha, int64_t, Tensor out) {
  store(out, at::index_add(x, dim, index, source, alpha));
})
ACLNN(IndexCopy,
      [](Tensor x, int64_t dim, Tensor index, Tensor source, Tensor out) { store(out, at::index_copy(x, dim, index, source)); })
ACLNN(InplaceIndexCopy, [](Tensor x, int64_t dim, Tensor index, Tensor source) { x.index_copy_(dim, index, source); })
ACLNN(InplaceIndexFillTensor,
      [](Tensor x, int64_t dim, Ints index, Scalar value) { x.index_fill_(dim, at::tensor(index), value); })
ACLNN(InplaceIndexFill, [](Tensor x, int64_t dim, Tensor index, Scalar value) { x.index_fill_(dim, index, value); })
ACLNN(IndexFill,
      [](Tensor x, int64_t dim, Tensor index, Scalar value, Tensor out) { store(out, at::index_fill(x, dim, index, value)); })
ACLNN(IndexFillTensor, [](Tensor x, int64_t dim, Ints index, Scalar value, Tensor out) {
  store(out, at::index_fill(x, dim, at::tensor(index), value));
})
ACLNN(InplaceScatter,
      [](Tensor x, int64_t dim, Tensor index, Tensor source, int64_t reduction) { scatter(x, dim, index, source, reduction); })
ACLNN(InplaceScatterValue, [](Tensor x, int64_t dim, Tensor index, Scalar value, int64_t reduction) {
  scatter_value(x, dim, index, value, reduction);
})
ACLNN(Scatter, [](Tensor x, int64_t dim, Tensor index, Tensor source, int64_t reduction, Tensor out) {
  auto copy = x.clone();
  scatter(copy, dim, index, source, reduction), store(out, copy);
})
ACLNN(ScatterValue, [](Tensor x, int64_t dim, Tensor index, Scalar value, int64_t reduction, Tensor out) {
  auto copy = x.clone();
  scatter_value(copy, dim, index, value, reduction), store(out, copy);
})
ACLNN(ScatterAdd,
      [](Tensor x, int64_t dim, Tensor index, Tensor source, Tensor out) { store(out, at::scatter_add(x, dim, index, source)); })
ACLNN(Nonzero, [](Tensor x, DynamicOutput out) { out.store(at::nonzero(x)); })
ACLNN(NonzeroV2, [](Tensor x, DynamicOutput out) { out.store(at::nonzero(x).t().contiguous()); })
ACLNN(MaskedSelect, [](Tensor x, Tensor mask, DynamicOutput out) { out.store(at::masked_select(x, mask)); })
ACLNN(Sort, [](Tensor x, bool stable, int64_t dim, bool descending, Tensor values, Tensor indices) {
  auto [value, index] = at::sort(x, stable, dim, descending);
  store(values, value), store(indices, index);
})
ACLNN(Argsort, [](Tensor x, int64_t dim, bool descending, Tensor out) { store(out, at::argsort(x, dim, descending)); })
ACLNN(Topk, [](Tensor x, int64_t k, int64_t dim, bool largest, bool sorted, Tensor values, Tensor indices) {
  auto [value, index] = at::topk(x, k, dim, largest, sorted);
  store(values, value), store(indices, index);
})
ACLNN(SearchSorted, [](Tensor sorted, Tensor x, bool int32, bool right, Tensor sorter, Tensor out) {
  auto order = sorter.defined() ? std::optional(sorter) : std::nullopt;
  store(out, at::searchsorted(sorted, x, int32, right, std::nullopt, order));
})
ACLNN(OneHot, [](Tensor x, int64_t depth, Tensor on, Tensor off, int64_t axis, Tensor out) {
  auto hot = at::one_hot(x.to(at::kLong), depth).to(at::kBool);
  if (axis >= 0 && axis < hot.dim() - 1) hot = hot.movedim(-1, axis);
  store(out, at::where(hot, on, off));
})
