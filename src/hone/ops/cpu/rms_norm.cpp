#include "hone/ops/cpu/rms_norm.h"

#include <cmath>

#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/lanes.h"

namespace hone::ops::cpu {
namespace {

template <class T>
HONE_INLINE void forward_body(const T* x, const T* weight, T* y, float* rstd, int64_t rows, int64_t width, float eps) {
  for (int64_t row = 0; row < rows; ++row, x += width, y += width) {
    Lane squares{};
    for_lanes(width, HONE_LANES(auto v = load(x + i, extent); squares += v * v));
    float scale = 1.0f / std::sqrt(sum(squares) / static_cast<float>(width) + eps);
    for_lanes(width, HONE_LANES(store(y + i, rounded<T>(load(x + i, extent) * scale) * load(weight + i, extent), extent)));
    rstd[row] = scale;
  }
}

// dweight: a float row of its own for this call's rows, or null.
template <class T>
HONE_INLINE void backward_body(const T* dy, const T* x, const T* weight, const float* rstd, T* dx, float* dweight, int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row, x += width, dy += width, dx += width) {
    float scale = rstd[row];
    Lane dot{};
    for_lanes(width, HONE_LANES(dot += load(dy + i, extent) * load(weight + i, extent) * load(x + i, extent)));
    float mean = sum(dot) * scale * scale / static_cast<float>(width);
    for_lanes(width, HONE_LANES(auto v = load(x + i, extent); auto g = load(dy + i, extent);
                                store(dx + i, (g * load(weight + i, extent) - v * mean) * scale, extent);
                                if (dweight) store(dweight + i, load(dweight + i, extent) + g * v * scale, extent)));
  }
}

#define HONE_DEFINE(T)                                                                                                          \
  HONE_CPU_KERNEL void forward_rows(const T* x, const T* w, T* y, float* rstd, int64_t rows, int64_t width, float eps) {        \
    forward_body(x, w, y, rstd, rows, width, eps);                                                                              \
  }                                                                                                                             \
  HONE_CPU_KERNEL void backward_rows(const T* dy, const T* x, const T* w, const float* rstd, T* dx, float* dw, int64_t rows,    \
                                     int64_t width) {                                                                           \
    backward_body(dy, x, w, rstd, dx, dw, rows, width);                                                                         \
  }
HONE_DEFINE(float)
HONE_DEFINE(c10::BFloat16)
HONE_DEFINE(c10::Half)
#undef HONE_DEFINE

constexpr int64_t kRowsPerPartialSum = 64;

}  // namespace

void rms_norm(const Tensor& x, const Tensor& weight, double eps, Tensor& y, Tensor& rstd) {
  int64_t width = x.size(-1), rows = x.numel() / width;
  with_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    auto *from = x.const_data_ptr<T>(), *scale = weight.const_data_ptr<T>();
    auto* to = y.mutable_data_ptr<T>();
    auto* inverse = rstd.mutable_data_ptr<float>();
    at::parallel_for(0, rows, row_grain(width), [&](int64_t begin, int64_t end) {
      forward_rows(from + begin * width, scale, to + begin * width, inverse + begin, end - begin, width, static_cast<float>(eps));
    });
  });
}

void rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& rstd, Tensor& dx, Tensor& dweight) {
  int64_t width = x.size(-1), rows = x.numel() / width;
  int64_t blocks = (rows + kRowsPerPartialSum - 1) / kRowsPerPartialSum;
  Tensor partial = dweight.defined() ? at::zeros({blocks, width}, rstd.options()) : Tensor();
  with_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    auto *grad = dy.const_data_ptr<T>(), *from = x.const_data_ptr<T>(), *scale = weight.const_data_ptr<T>();
    auto* to = dx.mutable_data_ptr<T>();
    auto* inverse = rstd.const_data_ptr<float>();
    auto* sums = partial.defined() ? partial.mutable_data_ptr<float>() : nullptr;
    at::parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        int64_t row = block * kRowsPerPartialSum, count = std::min(kRowsPerPartialSum, rows - row);
        backward_rows(grad + row * width, from + row * width, scale, inverse + row, to + row * width, sums ? sums + block * width : nullptr,
                      count, width);
      }
    });
  });
  if (dweight.defined()) dweight.copy_(partial.sum(0));
}

}  // namespace hone::ops::cpu
