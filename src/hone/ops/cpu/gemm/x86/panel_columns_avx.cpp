// vector/panel_columns.h for panels of 32 columns, two vectors of sixteen floats a step.
#if defined(__x86_64__)

#include "hone/ops/cpu/simd.h"
#include "hone/ops/cpu/vector/panel_columns.h"

namespace hone::ops::cpu {
namespace {

static_assert(kPanelColumns == 2 * kVectorWidth);

constexpr float kExponentShift = 12583039.0f;  // 1.5 * 2^23 + 127: adding it rounds, and the low bits then hold n + 127

HONE_INLINE F32x16 half_of(const PanelColumns& columns, int64_t half) {
  return load(columns.of + half * kVectorWidth, FullVector{});
}

// Folds state = next(state, vector, half of the columns) over the steps of a panel, even and odd ones apart, and those by
// `merge`.
template <class Next, class Merge>
HONE_INLINE PanelColumns fold_steps(float* panel, int64_t depth, float start, Next next, Merge merge) {
  F32x16 even[2] = {splat(start), splat(start)}, odd[2] = {splat(start), splat(start)};
  int64_t k = 0;
  for (; k + 2 <= depth; k += 2) {
#pragma GCC unroll 2
    for (int64_t half = 0; half < 2; ++half) {
      float* place = panel + k * kPanelColumns + half * kVectorWidth;
      even[half] = next(even[half], place, half);
      odd[half] = next(odd[half], place + kPanelColumns, half);
    }
  }
  if (k < depth)
    for (int64_t half = 0; half < 2; ++half) even[half] = next(even[half], panel + k * kPanelColumns + half * kVectorWidth, half);
  PanelColumns folded;
  for (int64_t half = 0; half < 2; ++half) store(folded.of + half * kVectorWidth, merge(even[half], odd[half]), FullVector{});
  return folded;
}

// state + value(number), where the value replaces the number.
template <class Value>
HONE_INLINE PanelColumns replace_and_sum(float* panel, int64_t depth, Value value) {
  return fold_steps(
      panel, depth, 0,
      [&](F32x16 state, float* place, int64_t half) __attribute__((always_inline)) {
        const F32x16 found = value(load(place, FullVector{}), half);
        store(place, found, FullVector{});
        return state + found;
      },
      [](F32x16 a, F32x16 b) __attribute__((always_inline)) { return a + b; });
}

HONE_INLINE F32x16 power_of_two(F32x16 shifted) { return reinterpret_cast<F32x16>(reinterpret_cast<I32x16>(shifted) << 23); }

// As in vector/vectors.h: e^x of x from -87 to 88.
HONE_INLINE F32x16 exp_normal(F32x16 x) {
  const F32x16 shifted = x * 1.44269504f + kExponentShift, n = shifted - kExponentShift;
  const F32x16 r = (x - n * 0.693359375f) - n * -2.12194440e-4f, squared = r * r;
  const F32x16 high = squared * 1.38143206e-3f + (r * 8.3688507e-3f + 4.16684e-2f), low = r * 0.166665196f + 0.49999994f;
  return (squared * (squared * high + low) + (r + 1.0f)) * power_of_two(shifted);
}
HONE_INLINE F32x16 exp_nonpositive(F32x16 x) { return x < splat(-87.33654f) ? F32x16{} : exp_normal(x); }

// As in vector/panel_columns.cpp: 2^x of x relative to the peak that is part of `shift`.
HONE_INLINE F32x16 power_from_peak(F32x16 x, F32x16 shift) {
  const F32x16 shifted = x + shift, r = x - (shifted - shift), scale = power_of_two(shifted), squared = r * r;
  const F32x16 low = r * 0.240222469f + 0.693147004f, high = squared * 0.0013269406f + (r * 0.00967129413f + 0.0555071123f);
  return (scale * r) * (squared * high + low) + scale;
}
HONE_INLINE F32x16 power_or_zero(F32x16 x, F32x16 least, F32x16 shift) {
  return x < least ? F32x16{} : power_from_peak(x, shift);
}

}  // namespace

bool has_panel_columns() {
  static const bool kHas = __builtin_cpu_supports("x86-64-v4");
  return kHas;
}

HONE_CPU_KERNEL RangeOfColumns range_of_columns(const float* panel, int64_t depth) {
  F32x16 largest[2] = {splat(-__builtin_inff()), splat(-__builtin_inff())}, smallest[2] = {-largest[0], -largest[1]};
  for (int64_t k = 0; k < depth; ++k)
#pragma GCC unroll 2
    for (int64_t half = 0; half < 2; ++half) {
      const F32x16 x = load(panel + k * kPanelColumns + half * kVectorWidth, FullVector{});
      largest[half] = max(largest[half], x);
      smallest[half] = min(smallest[half], x);
    }
  RangeOfColumns range;
  for (int64_t half = 0; half < 2; ++half) {
    store(range.largest.of + half * kVectorWidth, largest[half], FullVector{});
    store(range.smallest.of + half * kVectorWidth, smallest[half], FullVector{});
  }
  return range;
}

HONE_CPU_KERNEL PanelColumns sums_of_columns(const float* panel, int64_t depth) {
  return fold_steps(
      const_cast<float*>(panel), depth, 0,
      [](F32x16 state, const float* place, int64_t) __attribute__((always_inline)) { return state + load(place, FullVector{}); },
      [](F32x16 a, F32x16 b) __attribute__((always_inline)) { return a + b; });
}

HONE_CPU_KERNEL void scale_columns(float* panel, int64_t depth, const PanelColumns& factors) {
  const F32x16 by[2] = {half_of(factors, 0), half_of(factors, 1)};
  replace_and_sum(
      panel, depth, [&](F32x16 x, int64_t half) __attribute__((always_inline)) { return x * by[half]; });
}

HONE_CPU_KERNEL PanelColumns exponentials_of_columns(float* panel, int64_t depth, const PanelColumns& peaks, bool is_near) {
  const F32x16 from[2] = {half_of(peaks, 0), half_of(peaks, 1)};
  if (is_near)
    return replace_and_sum(
        panel, depth, [&](F32x16 x, int64_t half) __attribute__((always_inline)) { return exp_normal(x - from[half]); });
  return replace_and_sum(
      panel, depth, [&](F32x16 x, int64_t half) __attribute__((always_inline)) { return exp_nonpositive(x - from[half]); });
}

HONE_CPU_KERNEL PanelColumns powers_of_columns(float* panel, int64_t depth, const PanelColumns& peaks, bool is_near) {
  F32x16 shift[2], least[2];
  for (int64_t half = 0; half < 2; ++half)
    shift[half] = kExponentShift - half_of(peaks, half), least[half] = half_of(peaks, half) + kSmallestPower;
  if (is_near)
    return replace_and_sum(
        panel, depth, [&](F32x16 x, int64_t half) __attribute__((always_inline)) { return power_from_peak(x, shift[half]); });
  return replace_and_sum(
      panel,
      depth, [&](F32x16 x, int64_t half) __attribute__((always_inline)) { return power_or_zero(x, least[half], shift[half]); });
}

HONE_CPU_KERNEL void weights_and_gradients(float* weights, float* gradients, const float* logsumexp, const float* dots,
                                           int64_t count, float scale) {
  const F32x16 least = splat(kSmallestPower), shift = splat(kExponentShift), by = splat(scale);
  for_each_vector(
      count, [&](int64_t i, auto extent) __attribute__((always_inline)) {
        const F32x16 weight = power_or_zero(load(weights + i, extent) - load(logsumexp + i, extent), least, shift);
        const F32x16 gradient = weight * by * (load(gradients + i, extent) - load(dots + i, extent));
        store(weights + i, weight, extent);
        store(gradients + i, gradient, extent);
      });
}

}  // namespace hone::ops::cpu

#endif
