#include "hone/ops/cpu/vector/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "hone/ops/cpu/vector/rms_norm.cpp"
#include <hwy/foreach_target.h>

#include "hone/ops/cpu/vector/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace hone::ops::cpu::HWY_NAMESPACE {

template <class T>
HWY_INLINE void norm(const T* x, const T* weight, T* y, float* rstd, int64_t rows, int64_t width, float eps) {
  for (int64_t row = 0; row < rows; ++row, x += width, y += width) {
    const float squares = sum_row(width, [&](size_t i, auto extent) HONE_INLINED {
      const auto v = load(x + i, extent);
      return hn::Mul(v, v);
    });
    rstd[row] = 1.0f / std::sqrt(squares / static_cast<float>(width) + eps);
    const auto scale = splat(rstd[row]);
    fill_row(y, width, HONE_VALUE(hn::Mul(rounded<T>(hn::Mul(load(x + i, extent), scale)), load(weight + i, extent))));
  }
}

template <class T>
HWY_INLINE void forward(const T* x, const T* added, const T* weight, T* sum, T* y, float* rstd, int64_t rows, int64_t width,
                        float eps) {
  if (!added) return norm(x, weight, y, rstd, rows, width, eps);
  for (int64_t row = 0; row < rows; ++row, x += width, added += width, sum += width, y += width) {
    fill_row(sum, width, HONE_VALUE(hn::Add(load(x + i, extent), load(added + i, extent))));
    norm(sum, weight, y, rstd + row, 1, width, eps);
  }
}

template <class T>
HWY_INLINE void backward(const T* dy, const T* x, const T* weight, const float* rstd, const T* dsum, T* dx, float* dweight,
                         int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row, x += width, dy += width, dx += width) {
    const float dot =
        sum_row(width, HONE_VALUE(hn::Mul(hn::Mul(load(dy + i, extent), load(weight + i, extent)), load(x + i, extent))));
    const auto scale = splat(rstd[row]), mean = splat(dot * rstd[row] * rstd[row] / static_cast<float>(width));
    auto gradient = HONE_VALUE(
        hn::Mul(hn::NegMulAdd(load(x + i, extent), mean, hn::Mul(load(dy + i, extent), load(weight + i, extent))), scale));
    if (dsum) {
      fill_row(dx, width, HONE_VALUE(hn::Add(rounded<T>(gradient(i, extent)), load(dsum + i, extent))));
      dsum += width;
    } else {
      fill_row(dx, width, gradient);
    }
    if (dweight)
      fill_row(dweight, width,
               HONE_VALUE(hn::MulAdd(hn::Mul(load(dy + i, extent), load(x + i, extent)), scale, load(dweight + i, extent))));
  }
}

#define HONE_DEFINE(T, name)                                                                                                \
  void rms_norm_##name(const T* x, const T* added, const T* weight, T* sum, T* y, float* rstd, int64_t rows, int64_t width, \
                       float eps) {                                                                                         \
    forward(x, added, weight, sum, y, rstd, rows, width, eps);                                                              \
  }                                                                                                                         \
  void rms_norm_backward_##name(const T* dy, const T* x, const T* weight, const float* rstd, const T* dsum, T* dx,          \
                                float* dweight, int64_t rows, int64_t width) {                                              \
    backward(dy, x, weight, rstd, dsum, dx, dweight, rows, width);                                                          \
  }
HONE_FLOAT_TYPES(HONE_DEFINE)
#undef HONE_DEFINE

}  // namespace hone::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hone::ops::cpu {

#define HONE_EXPORT(T, name)                                                                                                     \
  HWY_EXPORT(rms_norm_##name);                                                                                                   \
  HWY_EXPORT(rms_norm_backward_##name);                                                                                          \
  template <>                                                                                                                    \
  void rms_norm_rows(const T* x, const T* added, const T* weight, T* sum, T* y, float* rstd, int64_t rows, int64_t width,        \
                     float eps) {                                                                                                \
    HWY_DYNAMIC_DISPATCH(rms_norm_##name)(x, added, weight, sum, y, rstd, rows, width, eps);                                     \
  }                                                                                                                              \
  template <>                                                                                                                    \
  void rms_norm_backward_rows(const T* dy, const T* x, const T* weight, const float* rstd, const T* dsum, T* dx, float* dweight, \
                              int64_t rows, int64_t width) {                                                                     \
    HWY_DYNAMIC_DISPATCH(rms_norm_backward_##name)(dy, x, weight, rstd, dsum, dx, dweight, rows, width);                         \
  }
HONE_FLOAT_TYPES(HONE_EXPORT)

}  // namespace hone::ops::cpu
#endif
