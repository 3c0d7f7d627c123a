#include "hone/tuner/methods/rotation.h"

namespace hone::tuner {

Tensor cayley(const Tensor& skew) {
  auto identity = at::eye(skew.size(-1), skew.options()).expand_as(skew);
  return at::linalg_solve(identity + skew, identity - skew, /*left=*/false);
}

Tensor cayley_series(const Tensor& skew, int64_t terms) {
  auto sum = at::eye(skew.size(-1), skew.options()).expand_as(skew);
  if (terms > 1) sum = sum + 2 * skew;
  if (terms <= 2) return sum;
  auto power = skew.bmm(skew);
  sum = sum + 2 * power;
  for (int64_t exponent = 3; exponent < terms - 1; ++exponent) {
    power = power.bmm(skew);
    sum = sum + 2 * power;
  }
  return sum + power.bmm(skew);
}

Tensor block_diagonal_matmul(const Tensor& x, const Tensor& blocks) {
  const int64_t count = blocks.size(0), size = blocks.size(1);
  auto parts = x.reshape({-1, count, size}).transpose(0, 1);  // [blocks, rows, size]
  return parts.bmm(blocks).transpose(0, 1).reshape(x.sizes());
}

Tensor multiplicative_dropout(const Tensor& blocks, double share) {
  const int64_t count = blocks.size(0), still = static_cast<int64_t>(share * static_cast<double>(count));
  if (count == 1 || still == 0) return blocks;
  auto mask = at::zeros({count, 1, 1}, blocks.options().requires_grad(false));
  mask.index_fill_(0, at::randperm(count, blocks.options().dtype(at::kLong)).narrow(0, 0, still), 1);
  return (1 - mask) * blocks + mask * at::eye(blocks.size(-1), blocks.options());
}

}  // namespace hone::tuner
