#include "hone/ops/cpu/rms_norm.h"

#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/parallel.h"
#include "hone/ops/cpu/scratch.h"
#include "hone/ops/cpu/vector/kernels.h"

namespace hone::ops::cpu {
namespace {

constexpr int64_t kRowsPerPartialSum = 64;

}  // namespace

void rms_norm(const Tensor& x, const Tensor& added, const Tensor& weight, double eps, Tensor& sum, Tensor& y, Tensor& rstd) {
  int64_t width = x.size(-1), rows = x.numel() / width;
  with_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    auto *from = x.const_data_ptr<T>(), *scale = weight.const_data_ptr<T>();
    const auto* other = added.defined() ? added.const_data_ptr<T>() : nullptr;
    auto *to = y.mutable_data_ptr<T>(), *total = added.defined() ? sum.mutable_data_ptr<T>() : nullptr;
    auto* inverse = rstd.defined() ? rstd.mutable_data_ptr<float>() : nullptr;
    parallel_pieces(rows, row_grain(width), [&](int64_t begin, int64_t end) {
      thread_local std::vector<float> unread;
      rms_norm_rows(from + begin * width, other ? other + begin * width : nullptr, scale, total ? total + begin * width : nullptr,
                    to + begin * width, inverse ? inverse + begin : grown(unread, end - begin), end - begin, width,
                    static_cast<float>(eps));
    });
  });
}

void rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd, const Tensor& dsum,
                       Tensor& dx, Tensor& dweight) {
  int64_t width = x.size(-1), rows = x.numel() / width;
  int64_t blocks = (rows + kRowsPerPartialSum - 1) / kRowsPerPartialSum;
  Tensor partial = dweight.defined() ? at::zeros({blocks, width}, rstd.options()) : Tensor();
  with_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    auto *grad = dy.const_data_ptr<T>(), *from = x.const_data_ptr<T>(), *scale = weight.const_data_ptr<T>();
    const auto* other = dsum.defined() ? dsum.const_data_ptr<T>() : nullptr;
    auto* to = dx.mutable_data_ptr<T>();
    auto* inverse = rstd.const_data_ptr<float>();
    auto* sums = partial.defined() ? partial.mutable_data_ptr<float>() : nullptr;
    parallel_pieces(blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        int64_t row = block * kRowsPerPartialSum, count = std::min(kRowsPerPartialSum, rows - row);
        rms_norm_backward_rows(grad + row * width, from + row * width, scale, inverse + row,
                               other ? other + row * width : nullptr, to + row * width, sums ? sums + block * width : nullptr,
                               count, width);
      }
    });
  });
  if (dweight.defined()) dweight.copy_(partial.sum(0));
}

}  // namespace hone::ops::cpu
