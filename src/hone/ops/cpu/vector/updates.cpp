#include "hone/ops/cpu/vector/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "hone/ops/cpu/vector/updates.cpp"
#include <hwy/foreach_target.h>

#include "hone/ops/cpu/vector/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace hone::ops::cpu::HWY_NAMESPACE {

template <class T>
HWY_INLINE void update(const float* x, float scale, const float* mask, bool adds, T* y, int64_t count) {
  const auto by = splat(scale);
  if (adds && mask)
    fill_row(y, count, HONE_VALUE(hn::MulAdd(hn::Mul(load(x + i, extent), by), load(mask + i, extent), load(y + i, extent))));
  else if (adds)
    fill_row(y, count, HONE_VALUE(hn::MulAdd(load(x + i, extent), by, load(y + i, extent))));
  else if (mask)
    fill_row(y, count, HONE_VALUE(hn::Mul(hn::Mul(load(x + i, extent), by), load(mask + i, extent))));
  else
    fill_row(y, count, HONE_VALUE(hn::Mul(load(x + i, extent), by)));
}

#define HONE_DEFINE(T, name)                                                                                        \
  void widened_##name(const T* x, float* y, int64_t count) { fill_row(y, count, HONE_VALUE(load(x + i, extent))); } \
  void masked_##name(const T* x, const float* mask, float* y, int64_t count) {                                      \
    fill_row(y, count, HONE_VALUE(hn::Mul(load(x + i, extent), load(mask + i, extent))));                           \
  }                                                                                                                 \
  void update_##name(const float* x, float scale, const float* mask, bool adds, T* y, int64_t count) {              \
    update(x, scale, mask, adds, y, count);                                                                         \
  }
HONE_FLOAT_TYPES(HONE_DEFINE)
#undef HONE_DEFINE

}  // namespace hone::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hone::ops::cpu {

#define HONE_EXPORT(T, name)                                                                         \
  HWY_EXPORT(widened_##name);                                                                        \
  HWY_EXPORT(masked_##name);                                                                         \
  HWY_EXPORT(update_##name);                                                                         \
  template <>                                                                                        \
  void widen_span(const T* x, float* y, int64_t count) {                                             \
    HWY_DYNAMIC_DISPATCH(widened_##name)(x, y, count);                                               \
  }                                                                                                  \
  template <>                                                                                        \
  void masked_span(const T* x, const float* mask, float* y, int64_t count) {                         \
    HWY_DYNAMIC_DISPATCH(masked_##name)(x, mask, y, count);                                          \
  }                                                                                                  \
  template <>                                                                                        \
  void update_span(const float* x, float scale, const float* mask, bool adds, T* y, int64_t count) { \
    HWY_DYNAMIC_DISPATCH(update_##name)(x, scale, mask, adds, y, count);                             \
  }
HONE_FLOAT_TYPES(HONE_EXPORT)

}  // namespace hone::ops::cpu
#endif
