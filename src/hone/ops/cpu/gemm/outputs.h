// Splits the outputs of a linear layer among threads.
#pragma once
#include <type_traits>
#include <vector>

#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/gemm/skinny_gemm_kernels.h"
#include "hone/ops/cpu/parallel.h"
#include "hone/ops/cpu/scratch.h"

namespace hone::ops::cpu {

// compute(first, count) over ranges of the outputs that are large enough for a thread.
template <class Compute>
void for_outputs(int64_t outputs, int64_t width, Compute compute) {
  const int64_t piece = std::max<int64_t>(8, 65536 / width / 8 * 8);
  parallel_pieces((outputs + piece - 1) / piece, 1, [&](int64_t begin, int64_t end) {
    int64_t first = begin * piece;
    compute(first, std::min(end * piece, outputs) - first);
  });
}

// [rows, outputs] in `dtype`: the float32 result of compute(y, first, shape) for each range, plus the bias, if defined. A range
// is converted while it is in the cache.
template <class Compute>
Tensor linear_outputs(const SkinnyShape& all, const Tensor& given_bias, at::ScalarType dtype, Compute compute) {
  const Tensor bias = given_bias.defined() ? given_bias.contiguous() : Tensor();
  auto y = at::empty({all.rows, all.count}, at::TensorOptions(dtype));
  with_type(dtype, [&](auto type) {
    using T = decltype(type);
    T* to = y.mutable_data_ptr<T>();
    for_outputs(all.count, all.width, [&](int64_t first, int64_t count) {
      thread_local std::vector<float> piece;
      constexpr bool kInPlace = std::is_same_v<T, float>;
      float* sums = kInPlace ? nullptr : grown(piece, all.rows * count);
      int64_t stride = count;
      if constexpr (kInPlace) sums = to + first, stride = all.count;
      compute(sums, first, SkinnyShape{all.rows, all.width, count, stride});
      if (bias.defined())
        with_type(bias.scalar_type(), [&](auto of_bias) {
          add_bias(sums, stride, bias.const_data_ptr<decltype(of_bias)>() + first, all.rows, count);
        });
      if constexpr (!kInPlace) round_outputs(sums, to + first, all.rows, count, all.count);
    });
  });
  return y;
}

}  // namespace hone::ops::cpu
