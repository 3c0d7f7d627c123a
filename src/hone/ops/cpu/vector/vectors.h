// Rows of floats in vectors of the available instruction set. Included by each kernel file once per set, after
// hwy/foreach_target.h.
#if defined(HONE_OPS_CPU_VECTOR_VECTORS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HONE_OPS_CPU_VECTOR_VECTORS_H
#undef HONE_OPS_CPU_VECTOR_VECTORS_H
#else
#define HONE_OPS_CPU_VECTOR_VECTORS_H
#endif
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstdint>
#include <cstring>

// Lambdas use the file's instruction set only with this attribute, which also inlines lambdas that are called in several
// places.
#ifndef HONE_INLINED
#define HONE_INLINED HWY_ATTR __attribute__((always_inline))
#endif

HWY_BEFORE_NAMESPACE();
namespace hone::ops::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using WordTag = hn::RebindToUnsigned<FloatTag>;
using IntTag = hn::RebindToSigned<FloatTag>;
using Floats = hn::Vec<FloatTag>;

// How much of a vector is inside the row.
struct FullVector {};
struct VectorTail {
  size_t count;
};

HWY_INLINE Floats splat(float value) { return hn::Set(FloatTag(), value); }

HWY_INLINE Floats load(const float* from, FullVector) { return hn::LoadU(FloatTag(), from); }
HWY_INLINE Floats load(const c10::BFloat16* from, FullVector) {
  const auto* bits = reinterpret_cast<const uint16_t*>(from);
#if HWY_TARGET == HWY_NEON  // one instruction instead of two
  return Floats(vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(bits), 16)));
#else
  const hn::Rebind<uint16_t, FloatTag> shorts;
  return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(WordTag(), hn::LoadU(shorts, bits))));
#endif
}
HWY_INLINE Floats load(const c10::Half* from, FullVector) {
  const hn::Rebind<hwy::float16_t, FloatTag> halves;
  return hn::PromoteTo(FloatTag(), hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(from)));
}

HWY_INLINE void store(float* to, Floats value, FullVector) { hn::StoreU(value, FloatTag(), to); }
// Words whose upper halves are the nearest bfloat16, ties to even; a NaN stays one. (Highway 1.0 truncates.) Without shifts,
// which only one of a Neoverse-N1's two vector pipes executes.
HWY_INLINE hn::Vec<WordTag> nearest_bfloat16(Floats value) {
  const WordTag words;
  const auto bits = hn::BitCast(words, value);
  const auto half = hn::IfThenElse(hn::TestBit(bits, hn::Set(words, 0x10000u)), hn::Set(words, 0x8000u), hn::Set(words, 0x7FFFu));
  return hn::IfThenElse(hn::RebindMask(words, hn::Eq(value, value)), hn::Add(bits, half), hn::Set(words, 0x7FC00000u));
}
HWY_INLINE void store(c10::BFloat16* to, Floats value, FullVector) {
  auto* bits = reinterpret_cast<uint16_t*>(to);
#if HWY_TARGET == HWY_NEON
  vst1_u16(bits, vshrn_n_u32(nearest_bfloat16(value).raw, 16));
#else
  const hn::Rebind<uint16_t, FloatTag> shorts;
  hn::StoreU(hn::DemoteTo(shorts, hn::BitCast(IntTag(), hn::ShiftRight<16>(nearest_bfloat16(value)))), shorts, bits);
#endif
}
HWY_INLINE void store(c10::Half* to, Floats value, FullVector) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR  // Highway 1.0 does not round there
  float values[HWY_LANES(float)];
  hn::StoreU(value, FloatTag(), values);
  for (size_t i = 0; i < hn::Lanes(FloatTag()); ++i) to[i] = values[i];
#else
  const hn::Rebind<hwy::float16_t, FloatTag> halves;
  hn::StoreU(hn::DemoteTo(halves, value), halves, reinterpret_cast<hwy::float16_t*>(to));
#endif
}

// Beyond the row there are zeros.
template <class T>
HWY_INLINE Floats load(const T* from, VectorTail part) {
  T buffer[HWY_LANES(float)] = {};
  std::memcpy(static_cast<void*>(buffer), from, part.count * sizeof(T));
  return load(buffer, FullVector{});
}
template <class T>
HWY_INLINE void store(T* to, Floats value, VectorTail part) {
  T buffer[HWY_LANES(float)];
  store(buffer, value, FullVector{});
  std::memcpy(static_cast<void*>(to), buffer, part.count * sizeof(T));
}

HWY_INLINE Floats inside(FullVector, Floats value, float) { return value; }
HWY_INLINE Floats inside(VectorTail part, Floats value, float beyond) {
  return hn::IfThenElse(hn::FirstN(FloatTag(), part.count), value, splat(beyond));
}

// Rounds a value to T and back: intermediate results round where a composition of tensors would.
template <class T>
HWY_INLINE Floats rounded(Floats value) {
  T buffer[HWY_LANES(float)];
  store(buffer, value, FullVector{});
  return load(buffer, FullVector{});
}
template <>
HWY_INLINE Floats rounded<float>(Floats value) {
  return value;
}
template <>
HWY_INLINE Floats rounded<c10::BFloat16>(Floats value) {
  return hn::BitCast(FloatTag(), hn::And(nearest_bfloat16(value), hn::Set(WordTag(), 0xFFFF0000u)));
}

// e^x = e^r 2^n, where |r| is at most half of ln 2. Adding kExpShift rounds to an integer, and the low bits then hold n + 127.
constexpr float kExpShift = 12583039.0f;  // 1.5 * 2^23 + 127
HWY_INLINE Floats exp_shifted(Floats x) { return hn::MulAdd(x, splat(1.44269504f), splat(kExpShift)); }
HWY_INLINE hn::Vec<IntTag> exp_exponent(Floats shifted) { return hn::ShiftLeft<23>(hn::BitCast(IntTag(), shifted)); }
// e^r; NaN where x is. The polynomial's own error is 3e-9; two short chains of it run side by side.
HWY_INLINE Floats exp_mantissa(Floats x, Floats shifted) {
  const Floats n = hn::Sub(shifted, splat(kExpShift));
  const Floats r = hn::NegMulAdd(n, splat(-2.12194440e-4f), hn::NegMulAdd(n, splat(0.693359375f), x)), squared = hn::Mul(r, r);
  Floats high = hn::MulAdd(r, splat(8.3688507e-3f), splat(4.16684e-2f));
  high = hn::MulAdd(squared, splat(1.38143206e-3f), high);
  const Floats low = hn::MulAdd(r, splat(0.166665196f), splat(0.49999994f));
  return hn::MulAdd(squared, hn::MulAdd(squared, high, low), hn::Add(r, splat(1.0f)));
}

// Within two units in the last place of expf; 0 below the smallest normal number, infinity above the largest, NaN stays.
// (Highway's own gives 0 for NaN.)
HWY_INLINE Floats exp(Floats x) {
  const FloatTag d;
  const IntTag bits;
  const Floats smallest = splat(-87.33654f), largest = splat(88.72283f);
  const Floats shifted = exp_shifted(hn::Min(hn::Max(x, smallest), largest));
  // 2^128 is no float: the exponents are added.
  const auto power = hn::Sub(exp_exponent(shifted), hn::BitCast(bits, splat(1.0f)));
  Floats p = hn::BitCast(d, hn::Add(hn::BitCast(bits, exp_mantissa(x, shifted)), power));
  p = hn::IfThenElse(hn::Lt(x, smallest), hn::Zero(d), p);
  p = hn::IfThenElse(hn::Gt(x, largest), splat(INFINITY), p);
  return hn::IfThenElse(hn::Ne(x, x), x, p);
}

// The same where x is from -87 to 88: nothing is clamped.
HWY_INLINE Floats exp_normal(Floats x) {
  const Floats shifted = exp_shifted(x);
  return hn::Mul(exp_mantissa(x, shifted), hn::BitCast(FloatTag(), exp_exponent(shifted)));
}

// The same where x is at most 0, as in a softmax relative to the largest logit.
HWY_INLINE Floats exp_nonpositive(Floats x) {
  const FloatTag d;
  const Floats smallest = splat(-87.33654f), shifted = exp_shifted(hn::Max(x, smallest));
  const Floats p = hn::Mul(exp_mantissa(x, shifted), hn::BitCast(d, exp_exponent(shifted)));
  return hn::IfThenElse(hn::Lt(x, smallest), hn::Zero(d), p);
}

// body(i, extent) for every vector of a row; only the last one may be partial.
template <class Body>
HWY_INLINE void for_vectors(int64_t width, Body body) {
  const auto count = static_cast<size_t>(width), n = hn::Lanes(FloatTag());
  size_t i = 0;
  for (; i + n <= count; i += n) body(i, FullVector{});
  if (i < count) body(i, VectorTail{count - i});
}

// to[i …] = value(i, extent). Four vectors are computed before any is stored, so that they are independent.
template <class T, class Value>
HWY_INLINE void fill_row(T* to, int64_t width, Value value) {
  const auto count = static_cast<size_t>(width), n = hn::Lanes(FloatTag());
  size_t i = 0;
  for (; i + 4 * n <= count; i += 4 * n) {
    const Floats a = value(i, FullVector{}), b = value(i + n, FullVector{}), c = value(i + 2 * n, FullVector{}),
                 e = value(i + 3 * n, FullVector{});
    store(to + i, a, FullVector{}), store(to + i + n, b, FullVector{}), store(to + i + 2 * n, c, FullVector{}),
        store(to + i + 3 * n, e, FullVector{});
  }
  for (; i + n <= count; i += n) store(to + i, value(i, FullVector{}), FullVector{});
  if (i < count) store(to + i, value(i, VectorTail{count - i}), VectorTail{count - i});
}

// Folds term(i, extent) over a row in four parallel vectors, then those; reads `start` beyond the row.
template <class Term, class Fold>
HWY_INLINE Floats fold_row(int64_t width, float start, Term term, Fold fold) {
  const auto count = static_cast<size_t>(width), n = hn::Lanes(FloatTag());
  Floats a = splat(start), b = a, c = a, e = a;
  size_t i = 0;
  for (; i + 4 * n <= count; i += 4 * n) {
    a = fold(a, term(i, FullVector{})), b = fold(b, term(i + n, FullVector{}));
    c = fold(c, term(i + 2 * n, FullVector{})), e = fold(e, term(i + 3 * n, FullVector{}));
  }
  for (; i + n <= count; i += n) a = fold(a, term(i, FullVector{}));
  if (i < count) b = fold(b, inside(VectorTail{count - i}, term(i, VectorTail{count - i}), start));
  return fold(fold(a, b), fold(c, e));
}

#define HONE_VALUE(...) [&](size_t i, auto extent) HONE_INLINED { return __VA_ARGS__; }

template <class Term>
HWY_INLINE float sum_row(int64_t width, Term term) {
  auto add = [](Floats a, Floats b) HONE_INLINED { return hn::Add(a, b); };
  return hn::GetLane(hn::SumOfLanes(FloatTag(), fold_row(width, 0.0f, term, add)));
}
template <class Term>
HWY_INLINE float max_row(int64_t width, Term term) {
  auto larger = [](Floats a, Floats b) HONE_INLINED { return hn::Max(a, b); };
  return hn::GetLane(hn::MaxOfLanes(FloatTag(), fold_row(width, -INFINITY, term, larger)));
}

}  // namespace hone::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

// DO(type, name) for the types that weights and activations come in: Highway exports functions by name, not templates.
#ifndef HONE_FLOAT_TYPES
#define HONE_FLOAT_TYPES(DO) DO(float, float32) DO(c10::BFloat16, bfloat16) DO(c10::Half, float16)
#endif
