// Creating, copying and rearranging tensors.
#include "cann_emulator/ops/operator.h"

using namespace cann;

ACLNN(InplaceCopy, [](Tensor to, Tensor from) { to.copy_(from); })
ACLNN(Cast, [](Tensor x, DataType type, Tensor out) { store(out, x.to(type.type)); })
ACLNN(InplaceZero, [](Tensor x) { x.zero_(); })
ACLNN(InplaceOne, [](Tensor x) { x.fill_(1); })
ACLNN(InplaceFillScalar, [](Tensor x, Scalar value) { x.fill_(value); })
ACLNN(InplaceFillTensor, [](Tensor x, Tensor value) { x.fill_(value.reshape({})); })
ACLNN(InplaceFillDiagonal, [](Tensor x, Scalar value, bool wrap) { x.fill_diagonal_(value, wrap); })
ACLNN(Arange, [](Scalar start, Scalar end, Scalar step, Tensor out) { store(out, at::arange(start, end, step, out.options())); })
ACLNN(Range, [](Scalar start, Scalar end, Scalar step, Tensor out) { store(out, at::range(start, end, step, out.options())); })
ACLNN(Linspace,
      [](Scalar start, Scalar end, int64_t steps, Tensor out) { store(out, at::linspace(start, end, steps, out.options())); })
ACLNN(Eye, [](int64_t rows, int64_t columns, Tensor out) { store(out, at::eye(rows, columns, out.options())); })
ACLNN(Cat, [](Tensors parts, int64_t dim, Tensor out) { store(out, at::cat(parts, dim)); })
ACLNN(Stack, [](Tensors parts, int64_t dim, Tensor out) { store(out, at::stack(parts, dim)); })
ACLNN(Repeat, [](Tensor x, Ints repeats, Tensor out) { store(out, x.repeat(repeats)); })
ACLNN(RepeatInterleave, [](Tensor x, Tensor repeats, int64_t size, Tensor out) {
  store(out, at::repeat_interleave(x, repeats, std::nullopt, size));
})
ACLNN(RepeatInterleaveInt, [](Tensor x, int64_t repeats, int64_t size, Tensor out) {
  store(out, at::repeat_interleave(x, repeats, std::nullopt, size));
})
ACLNN(RepeatInterleaveWithDim, [](Tensor x, Tensor repeats, int64_t dim, int64_t size, Tensor out) {
  store(out, at::repeat_interleave(x, repeats, dim, size));
})
ACLNN(RepeatInterleaveIntWithDim, [](Tensor x, int64_t repeats, int64_t dim, int64_t size, Tensor out) {
  store(out, at::repeat_interleave(x, repeats, dim, size));
})
ACLNN(ConstantPadNd, [](Tensor x, Ints pad, Scalar value, Tensor out) { store(out, at::constant_pad_nd(x, pad, value)); })
ACLNN(Triu, [](Tensor x, int64_t diagonal, Tensor out) { store(out, at::triu(x, diagonal)); })
ACLNN(Tril, [](Tensor x, int64_t diagonal, Tensor out) { store(out, at::tril(x, diagonal)); })
ACLNN(InplaceTriu, [](Tensor x, int64_t diagonal) { x.triu_(diagonal); })
ACLNN(InplaceTril, [](Tensor x, int64_t diagonal) { x.tril_(diagonal); })
ACLNN(Flip, [](Tensor x, Ints dims, Tensor out) { store(out, at::flip(x, dims)); })
ACLNN(Roll, [](Tensor x, Ints shifts, Ints dims, Tensor out) { store(out, at::roll(x, shifts, dims)); })
ACLNN(Permute, [](Tensor x, Ints dims, Tensor out) { store(out, x.permute(dims)); })
ACLNN(SplitWithSize, [](Tensor x, Ints sizes, int64_t dim, Tensors out) {
  auto parts = at::split_with_sizes(x, sizes, dim);
  for (size_t i = 0; i < parts.size(); ++i) store(out[i], parts[i]);
})
