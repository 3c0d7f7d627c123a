#include "hone/ops/cpu/vector/delta_step.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "hone/ops/cpu/vector/delta_step.cpp"
#include <hwy/foreach_target.h>

#include "hone/ops/cpu/vector/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace hone::ops::cpu::HWY_NAMESPACE {

// The four weights of each of a vector's channels.
struct Taps {
  float values[kConvSteps][HWY_LANES(float)] = {};
  HWY_INLINE Floats operator[](size_t tap) const { return load(values[tap], FullVector{}); }
};
template <class T>
HWY_INLINE void load_taps(const T* weight, size_t count, Taps& taps) {
  for (size_t i = 0; i < count; ++i)
    for (size_t tap = 0; tap < static_cast<size_t>(kConvSteps); ++tap)
      taps.values[tap][i] = static_cast<float>(weight[i * static_cast<size_t>(kConvSteps) + tap]);
}

HWY_INLINE size_t count_of(FullVector) { return hn::Lanes(FloatTag()); }
HWY_INLINE size_t count_of(VectorTail part) { return part.count; }

template <class T>
HWY_INLINE void conv_step(const T* x, const T* weight, T* past, int64_t stride, T* y, int64_t count) {
  for_vectors(count, [&](size_t i, auto extent) HONE_INLINED {
    Taps taps;
    load_taps(weight + i * static_cast<size_t>(kConvSteps), count_of(extent), taps);
    const auto newest = load(x + i, extent), first = load(past + i, extent), second = load(past + stride + i, extent),
               third = load(past + 2 * stride + i, extent);
    auto sum = hn::MulAdd(second, taps[1], hn::Mul(first, taps[0]));
    sum = hn::MulAdd(newest, taps[3], hn::MulAdd(third, taps[2], sum));
    store(y + i, sum, extent);
    store(past + i, second, extent), store(past + stride + i, third, extent), store(past + 2 * stride + i, newest, extent);
  });
}

template <class T>
HWY_INLINE void normalized(const T* x, float scale, float* y, int64_t count) {
  const float squares = sum_row(count, [&](size_t i, auto extent) HONE_INLINED {
    const auto value = load(x + i, extent);
    return hn::Mul(value, value);
  });
  const auto factor = splat(scale / std::sqrt(squares + 1e-6f));
  fill_row(y, count, HONE_VALUE(hn::Mul(load(x + i, extent), factor)));
}

// A vector's columns of a head's state: what the key finds is summed over the rows, then each row gets its part of the
// correction, and the query reads it.
template <class T, class Extent>
HWY_INLINE void step_columns(const float* q, const float* k, const T* v, float decay, float beta, float* state, T* y,
                             int64_t keys, int64_t values, Extent extent) {
  const auto fade = splat(decay);
  auto found = hn::Zero(FloatTag()), read = found;
  for (int64_t i = 0; i < keys; ++i) found = hn::MulAdd(load(state + i * values, extent), splat(k[i] * decay), found);
  const auto delta = hn::Mul(hn::Sub(load(v, extent), found), splat(beta));
  for (int64_t i = 0; i < keys; ++i) {
    const auto next = hn::MulAdd(splat(k[i]), delta, hn::Mul(load(state + i * values, extent), fade));
    store(state + i * values, next, extent);
    read = hn::MulAdd(next, splat(q[i]), read);
  }
  store(y, read, extent);
}

// The same for four vectors, which stay in the cache between their two readings.
template <class T>
HWY_INLINE void step_four(const float* q, const float* k, const T* v, float decay, float beta, float* state, T* y, int64_t keys,
                          int64_t values) {
  const size_t n = hn::Lanes(FloatTag());
  const FullVector all;
  const auto fade = splat(decay), learned = splat(beta);
  auto a = hn::Zero(FloatTag()), b = a, c = a, e = a;
  for (int64_t i = 0; i < keys; ++i) {
    const auto key = splat(k[i] * decay);
    const auto* row = state + i * values;
    a = hn::MulAdd(load(row, all), key, a), b = hn::MulAdd(load(row + n, all), key, b);
    c = hn::MulAdd(load(row + 2 * n, all), key, c), e = hn::MulAdd(load(row + 3 * n, all), key, e);
  }
  const auto da = hn::Mul(hn::Sub(load(v, all), a), learned), db = hn::Mul(hn::Sub(load(v + n, all), b), learned),
             dc = hn::Mul(hn::Sub(load(v + 2 * n, all), c), learned), de = hn::Mul(hn::Sub(load(v + 3 * n, all), e), learned);
  a = b = c = e = hn::Zero(FloatTag());
  for (int64_t i = 0; i < keys; ++i) {
    const auto key = splat(k[i]), query = splat(q[i]);
    auto* row = state + i * values;
    const auto next_a = hn::MulAdd(key, da, hn::Mul(load(row, all), fade)),
               next_b = hn::MulAdd(key, db, hn::Mul(load(row + n, all), fade)),
               next_c = hn::MulAdd(key, dc, hn::Mul(load(row + 2 * n, all), fade)),
               next_e = hn::MulAdd(key, de, hn::Mul(load(row + 3 * n, all), fade));
    store(row, next_a, all), store(row + n, next_b, all), store(row + 2 * n, next_c, all), store(row + 3 * n, next_e, all);
    a = hn::MulAdd(next_a, query, a), b = hn::MulAdd(next_b, query, b);
    c = hn::MulAdd(next_c, query, c), e = hn::MulAdd(next_e, query, e);
  }
  store(y, a, all), store(y + n, b, all), store(y + 2 * n, c, all), store(y + 3 * n, e, all);
}

template <class T>
HWY_INLINE void delta_step(const T* q, const T* k, const T* v, float decay, float beta, float* state, T* y, int64_t keys,
                           int64_t values) {
  float query[kMaxDeltaKeys], key[kMaxDeltaKeys];
  normalized(q, 1.0f / std::sqrt(static_cast<float>(keys)), query, keys);
  normalized(k, 1.0f, key, keys);
  const auto n = static_cast<int64_t>(hn::Lanes(FloatTag()));
  int64_t column = 0;
  for (; column + 4 * n <= values; column += 4 * n)
    step_four(query, key, v + column, decay, beta, state + column, y + column, keys, values);
  for (; column + n <= values; column += n)
    step_columns(query, key, v + column, decay, beta, state + column, y + column, keys, values, FullVector{});
  if (column < values)
    step_columns(query, key, v + column, decay, beta, state + column, y + column, keys, values,
                 VectorTail{static_cast<size_t>(values - column)});
}

#define HONE_DEFINE(T, name)                                                                                            \
  void conv_step_##name(const T* x, const T* weight, T* past, int64_t stride, T* y, int64_t count) {                    \
    conv_step(x, weight, past, stride, y, count);                                                                       \
  }                                                                                                                     \
  void delta_step_##name(const T* q, const T* k, const T* v, float decay, float beta, float* state, T* y, int64_t keys, \
                         int64_t values) {                                                                              \
    delta_step(q, k, v, decay, beta, state, y, keys, values);                                                           \
  }
HONE_FLOAT_TYPES(HONE_DEFINE)
#undef HONE_DEFINE

}  // namespace hone::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hone::ops::cpu {

#define HONE_EXPORT(T, name)                                                                                          \
  HWY_EXPORT(conv_step_##name);                                                                                       \
  HWY_EXPORT(delta_step_##name);                                                                                      \
  template <>                                                                                                         \
  void conv_step_span(const T* x, const T* weight, T* past, int64_t stride, T* y, int64_t count) {                    \
    HWY_DYNAMIC_DISPATCH(conv_step_##name)(x, weight, past, stride, y, count);                                        \
  }                                                                                                                   \
  template <>                                                                                                         \
  void delta_step_head(const T* q, const T* k, const T* v, float decay, float beta, float* state, T* y, int64_t keys, \
                       int64_t values) {                                                                              \
    HWY_DYNAMIC_DISPATCH(delta_step_##name)(q, k, v, decay, beta, state, y, keys, values);                            \
  }
HONE_FLOAT_TYPES(HONE_EXPORT)

}  // namespace hone::ops::cpu
#endif
