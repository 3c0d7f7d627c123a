#include "hone/ops/cpu/rope.h"

#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/parallel.h"
#include "hone/ops/cpu/vector/kernels.h"

namespace hone::ops::cpu {
void rope(const Tensor& x, const Tensor& cos, const Tensor& sin, float direction, Tensor& y) {
  int64_t rows = x.size(0), width = x.numel() / rows, half = cos.size(1);
  with_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    auto* from = x.const_data_ptr<T>();
    auto* to = y.mutable_data_ptr<T>();
    auto *cosines = cos.const_data_ptr<float>(), *sines = sin.const_data_ptr<float>();
    parallel_pieces(rows, row_grain(width), [&](int64_t begin, int64_t end) {
      rope_rows(from + begin * width, cosines + begin * half, sines + begin * half, direction, to + begin * width, end - begin,
                width / (2 * half), half);
    });
  });
}

}  // namespace hone::ops::cpu
