#include "hone/ops/cpu/vector/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "hone/ops/cpu/vector/swiglu.cpp"
#include <hwy/foreach_target.h>

#include "hone/ops/cpu/vector/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace hone::ops::cpu::HWY_NAMESPACE {

// 0 where x is below -87. The gate it is multiplied by keeps NaN.
HWY_INLINE Floats sigmoid(Floats x) {
  const auto one = splat(1.0f), largest = splat(87.0f), smallest = splat(-87.0f);
  const auto fraction = hn::Div(one, hn::Add(one, exp_normal(hn::Neg(hn::Min(hn::Max(x, smallest), largest)))));
  return hn::IfThenZeroElse(hn::Lt(x, smallest), fraction);
}

template <class T>
HWY_INLINE void forward(const T* gate, const T* up, T* y, int64_t count) {
  fill_row(y, count, [&](size_t i, auto extent) HONE_INLINED {
    const auto g = load(gate + i, extent);
    return hn::Mul(rounded<T>(hn::Mul(g, sigmoid(g))), load(up + i, extent));
  });
}
// Sigmoids of some gates come first, four vectors of them at a time: each is a long chain.
template <class T>
HWY_INLINE void backward(const T* dy, const T* gate, const T* up, T* dgate, T* dup, int64_t count) {
  constexpr int64_t kSome = 256;
  float sigmoids[kSome];
  const auto one = splat(1.0f);
  for (int64_t begin = 0; begin < count; begin += kSome) {
    const int64_t some = count - begin < kSome ? count - begin : kSome;
    fill_row(sigmoids, some, HONE_VALUE(sigmoid(load(gate + begin + i, extent))));
    for_vectors(some, [&](size_t k, auto extent) HONE_INLINED {
      const auto i = static_cast<size_t>(begin) + k;
      const auto g = load(gate + i, extent), d = load(dy + i, extent), u = load(up + i, extent), s = load(sigmoids + k, extent);
      store(dup + i, hn::Mul(hn::Mul(d, g), s), extent);
      store(dgate + i, hn::Mul(hn::Mul(hn::Mul(d, u), s), hn::MulAdd(g, hn::Sub(one, s), one)), extent);
    });
  }
}

#define HONE_DEFINE(T, name)                                                                              \
  void swiglu_##name(const T* gate, const T* up, T* y, int64_t count) { forward(gate, up, y, count); }    \
  void swiglu_backward_##name(const T* dy, const T* gate, const T* up, T* dgate, T* dup, int64_t count) { \
    backward(dy, gate, up, dgate, dup, count);                                                            \
  }
HONE_FLOAT_TYPES(HONE_DEFINE)
#undef HONE_DEFINE

}  // namespace hone::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hone::ops::cpu {

#define HONE_EXPORT(T, name)                                                                            \
  HWY_EXPORT(swiglu_##name);                                                                            \
  HWY_EXPORT(swiglu_backward_##name);                                                                   \
  template <>                                                                                           \
  void swiglu_span(const T* gate, const T* up, T* y, int64_t count) {                                   \
    HWY_DYNAMIC_DISPATCH(swiglu_##name)(gate, up, y, count);                                            \
  }                                                                                                     \
  template <>                                                                                           \
  void swiglu_backward_span(const T* dy, const T* gate, const T* up, T* dgate, T* dup, int64_t count) { \
    HWY_DYNAMIC_DISPATCH(swiglu_backward_##name)(dy, gate, up, dgate, dup, count);                      \
  }
HONE_FLOAT_TYPES(HONE_EXPORT)

}  // namespace hone::ops::cpu
#endif
