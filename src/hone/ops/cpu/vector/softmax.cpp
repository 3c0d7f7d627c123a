#include "hone/ops/cpu/vector/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "hone/ops/cpu/vector/softmax.cpp"
#include <hwy/foreach_target.h>

#include "hone/ops/cpu/vector/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace hone::ops::cpu::HWY_NAMESPACE {

template <class T>
HWY_INLINE SoftmaxOfRow softmax(const T* row, int64_t width, bool with_sum) {
  const float peak = max_row(width, HONE_VALUE(load(row + i, extent)));
  const auto from = splat(peak);
  const float total = sum_row(width, HONE_VALUE(exp_nonpositive(hn::Sub(load(row + i, extent), from))));
  return {peak, total, with_sum ? sum_row(width, HONE_VALUE(load(row + i, extent))) : 0.0f};
}
template <class T>
HWY_INLINE void softmax_gradient(T* row, int64_t width, float peak, float scale, float spread) {
  const auto from = splat(peak), factor = splat(scale), less = splat(spread);
  fill_row(row, width, HONE_VALUE(hn::MulSub(exp_nonpositive(hn::Sub(load(row + i, extent), from)), factor, less)));
}

#define HONE_DEFINE(T, name)                                                                                        \
  SoftmaxOfRow softmax_##name(const T* row, int64_t width, bool with_sum) { return softmax(row, width, with_sum); } \
  void softmax_gradient_##name(T* row, int64_t width, float peak, float scale, float spread) {                      \
    softmax_gradient(row, width, peak, scale, spread);                                                              \
  }
HONE_FLOAT_TYPES(HONE_DEFINE)
#undef HONE_DEFINE

float max_of(const float* row, int64_t width) { return max_row(width, HONE_VALUE(load(row + i, extent))); }
float sum_of(const float* row, int64_t width) { return sum_row(width, HONE_VALUE(load(row + i, extent))); }

float exponentials(float* row, int64_t width, float peak) {
  const auto from = splat(peak);
  fill_row(row, width, HONE_VALUE(exp_nonpositive(hn::Sub(load(row + i, extent), from))));
  return sum_of(row, width);
}
void add_scaled(float* row, const float* other, int64_t width, float scale, float other_scale) {
  const auto by = splat(scale), other_by = splat(other_scale);
  fill_row(row, width, HONE_VALUE(hn::MulAdd(load(row + i, extent), by, hn::Mul(load(other + i, extent), other_by))));
}
void scaled(float* row, int64_t width, float factor) {
  const auto by = splat(factor);
  fill_row(row, width, HONE_VALUE(hn::Mul(load(row + i, extent), by)));
}
void softmax_backward(const float* weights, float* gradients, int64_t width, float dot, float scale) {
  const auto by = splat(scale), less = splat(dot);
  fill_row(gradients, width,
           HONE_VALUE(hn::Mul(hn::Mul(load(weights + i, extent), by), hn::Sub(load(gradients + i, extent), less))));
}

}  // namespace hone::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hone::ops::cpu {

#define HONE_EXPORT(T, name)                                                                \
  HWY_EXPORT(softmax_##name);                                                               \
  HWY_EXPORT(softmax_gradient_##name);                                                      \
  template <>                                                                               \
  SoftmaxOfRow softmax_of_row(const T* row, int64_t width, bool with_sum) {                 \
    return HWY_DYNAMIC_DISPATCH(softmax_##name)(row, width, with_sum);                      \
  }                                                                                         \
  template <>                                                                               \
  void softmax_gradient_row(T* row, int64_t width, float peak, float scale, float spread) { \
    HWY_DYNAMIC_DISPATCH(softmax_gradient_##name)(row, width, peak, scale, spread);         \
  }
HONE_FLOAT_TYPES(HONE_EXPORT)

HWY_EXPORT(max_of);
HWY_EXPORT(sum_of);
HWY_EXPORT(exponentials);
HWY_EXPORT(add_scaled);
HWY_EXPORT(scaled);
HWY_EXPORT(softmax_backward);
float max_of_row(const float* row, int64_t width) { return HWY_DYNAMIC_DISPATCH(max_of)(row, width); }
float sum_of_row(const float* row, int64_t width) { return HWY_DYNAMIC_DISPATCH(sum_of)(row, width); }
float exponentials_in_place(float* row, int64_t width, float peak) {
  return HWY_DYNAMIC_DISPATCH(exponentials)(row, width, peak);
}
void add_scaled_row(float* row, const float* other, int64_t width, float scale, float other_scale) {
  HWY_DYNAMIC_DISPATCH(add_scaled)(row, other, width, scale, other_scale);
}
void scale_row(float* row, int64_t width, float factor) { HWY_DYNAMIC_DISPATCH(scaled)(row, width, factor); }
void softmax_backward_row(const float* weights, float* gradients, int64_t width, float dot, float scale) {
  HWY_DYNAMIC_DISPATCH(softmax_backward)(weights, gradients, width, dot, scale);
}

}  // namespace hone::ops::cpu
#endif
