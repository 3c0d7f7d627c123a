#include "hone/ops/cpu/vector/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "hone/ops/cpu/vector/rope.cpp"
#include <hwy/foreach_target.h>

#include "hone/ops/cpu/vector/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace hone::ops::cpu::HWY_NAMESPACE {

template <class T>
HWY_INLINE void rotate_heads(const T* x, const float* cos, const float* sin, float direction, T* y, int64_t rows, int64_t heads,
                             int64_t half) {
  const auto sign = splat(direction);
  for (int64_t row = 0; row < rows; ++row, cos += half, sin += half)
    for (int64_t head = 0; head < heads; ++head, x += 2 * half, y += 2 * half)
      for_vectors(half, [&](size_t i, auto extent) HONE_INLINED {
        const auto c = load(cos + i, extent), s = hn::Mul(load(sin + i, extent), sign);
        const auto first = load(x + i, extent), second = load(x + half + i, extent);
        store(y + i, hn::NegMulAdd(second, s, hn::Mul(first, c)), extent);
        store(y + half + i, hn::MulAdd(first, s, hn::Mul(second, c)), extent);
      });
}

#define HONE_DEFINE(T, name)                                                                                           \
  void rope_##name(const T* x, const float* cos, const float* sin, float direction, T* y, int64_t rows, int64_t heads, \
                   int64_t half) {                                                                                     \
    rotate_heads(x, cos, sin, direction, y, rows, heads, half);                                                        \
  }
HONE_FLOAT_TYPES(HONE_DEFINE)
#undef HONE_DEFINE

}  // namespace hone::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hone::ops::cpu {

#define HONE_EXPORT(T, name)                                                                                         \
  HWY_EXPORT(rope_##name);                                                                                           \
  template <>                                                                                                        \
  void rope_rows(const T* x, const float* cos, const float* sin, float direction, T* y, int64_t rows, int64_t heads, \
                 int64_t half) {                                                                                     \
    HWY_DYNAMIC_DISPATCH(rope_##name)(x, cos, sin, direction, y, rows, heads, half);                                 \
  }
HONE_FLOAT_TYPES(HONE_EXPORT)

}  // namespace hone::ops::cpu
#endif
