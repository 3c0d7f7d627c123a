#if defined(__aarch64__)

#include "hone/ops/cpu/vector/panel_columns.h"

#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "hone/ops/cpu/vector/panel_columns.cpp"
#include <hwy/foreach_target.h>

#include "hone/ops/cpu/vector/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace hone::ops::cpu::HWY_NAMESPACE {

// The twelve columns, repeated: three vectors of 4, 8, 16 … floats hold one or more steps, so a column is always in the same
// lanes.
struct RepeatedColumns {
  float of[3 * HWY_LANES(float)];
  explicit RepeatedColumns(const PanelColumns& columns) {
    for (size_t i = 0; i < 3 * hn::Lanes(FloatTag()); ++i) of[i] = columns.of[i % kPanelColumns];
  }
};

// The lanes of three vectors, folded by `merge` per column.
template <class Merge>
HWY_INLINE PanelColumns merge_lanes(Floats a, Floats b, Floats c, Merge merge) {
  const size_t n = hn::Lanes(FloatTag());
  float lanes[3 * HWY_LANES(float)];
  store(lanes, a, FullVector{}), store(lanes + n, b, FullVector{}), store(lanes + 2 * n, c, FullVector{});
  PanelColumns columns;
  for (size_t k = 0; k < 3 * n; ++k) {
    float& column = columns.of[k % kPanelColumns];
    column = k < static_cast<size_t>(kPanelColumns) ? lanes[k] : merge(column, lanes[k]);
  }
  return columns;
}

// Folds state = next(state, place in the panel, extent, place in RepeatedColumns) over every vector of each column's lanes, and
// the lanes of a column by `merge`.
template <class Next, class Merge>
HWY_INLINE PanelColumns fold_columns(int64_t depth, float start, Next next, Merge merge) {
  const size_t n = hn::Lanes(FloatTag()), count = static_cast<size_t>(depth * kPanelColumns);
  Floats a = splat(start), b = a, c = a;
  size_t i = 0;
  for (; i + 3 * n <= count; i += 3 * n) {
    a = next(a, i, FullVector{}, 0);
    b = next(b, i + n, FullVector{}, n);
    c = next(c, i + 2 * n, FullVector{}, 2 * n);
  }
  auto tail = [&](size_t from) HONE_INLINED { return VectorTail{count - from < n ? count - from : n}; };
  if (i < count) a = next(a, i, tail(i), 0);
  if (i + n < count) b = next(b, i + n, tail(i + n), n);
  if (i + 2 * n < count) c = next(c, i + 2 * n, tail(i + 2 * n), 2 * n);
  return merge_lanes(a, b, c, merge);
}

constexpr auto kSum = [](float x, float y) { return x + y; };

// Both in one pass: three vectors of each are enough to keep the units busy.
RangeOfColumns range_of_panel(const float* panel, int64_t depth) {
  const size_t n = hn::Lanes(FloatTag()), count = static_cast<size_t>(depth * kPanelColumns);
  Floats a = splat(-INFINITY), b = a, c = a, d = splat(INFINITY), e = d, f = d;
  size_t i = 0;
  for (; i + 3 * n <= count; i += 3 * n) {
    const Floats x = load(panel + i, FullVector{}), y = load(panel + i + n, FullVector{}),
                 z = load(panel + i + 2 * n, FullVector{});
    a = hn::Max(a, x), b = hn::Max(b, y), c = hn::Max(c, z);
    d = hn::Min(d, x), e = hn::Min(e, y), f = hn::Min(f, z);
  }
  auto fold = [&](Floats& high, Floats& low, size_t from) HONE_INLINED {
    if (from >= count) return;
    const VectorTail part{count - from < n ? count - from : n};
    const Floats x = load(panel + from, part);
    high = hn::Max(high, inside(part, x, -INFINITY)), low = hn::Min(low, inside(part, x, INFINITY));
  };
  fold(a, d, i), fold(b, e, i + n), fold(c, f, i + 2 * n);
  return {merge_lanes(a, b, c, [](float x, float y) { return x > y ? x : y; }),
          merge_lanes(d, e, f, [](float x, float y) { return x < y ? x : y; })};
}

PanelColumns sums_of_panel(const float* panel, int64_t depth) {
  auto add = [&](Floats state, size_t i, auto extent, size_t) HONE_INLINED { return hn::Add(state, load(panel + i, extent)); };
  return fold_columns(depth, 0, add, kSum);
}

void scale_panel(float* panel, int64_t depth, const PanelColumns& factors) {
  const RepeatedColumns by(factors);
  auto multiply = [&](Floats state, size_t i, auto extent, size_t place) HONE_INLINED {
    store(panel + i, hn::Mul(load(panel + i, extent), load(by.of + place, FullVector{})), extent);
    return state;
  };
  fold_columns(depth, 0, multiply, kSum);
}

template <class Exp>
HWY_INLINE PanelColumns exponentiate(float* panel, int64_t depth, const PanelColumns& peaks, Exp exp_of) {
  const RepeatedColumns from(peaks);
  auto next = [&](Floats state, size_t i, auto extent, size_t place) HONE_INLINED {
    const Floats value = inside(extent, exp_of(hn::Sub(load(panel + i, extent), load(from.of + place, FullVector{}))), 0.0f);
    store(panel + i, value, extent);
    return hn::Add(state, value);
  };
  return fold_columns(depth, 0, next, kSum);
}
PanelColumns exponentials_of_panel(float* panel, int64_t depth, const PanelColumns& peaks, bool is_near) {
  return is_near ? exponentiate(panel, depth, peaks, [](Floats x) HONE_INLINED { return exp_normal(x); })
                 : exponentiate(panel, depth, peaks, [](Floats x) HONE_INLINED { return exp_nonpositive(x); });
}

// 2^x = 2^n (1 + r q(r)) where r is from -1/2 to 1/2, within 2e-7. Adding `shift`, an integer, rounds x to n, and the low bits
// then hold its distance from the peak, plus 127.
HWY_INLINE Floats power_from_peak(Floats x, Floats shift) {
  const Floats shifted = hn::Add(x, shift), r = hn::Sub(x, hn::Sub(shifted, shift)), squared = hn::Mul(r, r);
  const Floats scale = hn::BitCast(FloatTag(), exp_exponent(shifted)), scaled = hn::Mul(scale, r);
  const Floats low = hn::MulAdd(r, splat(0.240222469f), splat(0.693147004f));
  const Floats high = hn::MulAdd(squared, splat(0.0013269406f), hn::MulAdd(r, splat(0.00967129413f), splat(0.0555071123f)));
  return hn::MulAdd(scaled, hn::MulAdd(squared, high, low), scale);
}
// 0 below `low`, where the power would not be a normal number.
HWY_INLINE Floats power_or_zero(Floats x, Floats low, Floats shift) {
  return hn::IfThenZeroElse(hn::Lt(x, low), power_from_peak(hn::Max(x, low), shift));
}

PanelColumns powers_of_panel(float* panel, int64_t depth, const PanelColumns& peaks, bool is_near) {
  PanelColumns shifts, least;
  for (int64_t j = 0; j < kPanelColumns; ++j) shifts.of[j] = kExpShift - peaks.of[j], least.of[j] = peaks.of[j] + kSmallestPower;
  const RepeatedColumns from(shifts), smallest(least);
  auto next = [&](auto clamped) HONE_INLINED {
    return [&, clamped](Floats state, size_t i, auto extent, size_t place) HONE_INLINED {
      const Floats x = load(panel + i, extent), shift = load(from.of + place, FullVector{});
      Floats value;
      if constexpr (decltype(clamped)::value) {
        value = power_or_zero(x, load(smallest.of + place, FullVector{}), shift);
      } else {
        value = power_from_peak(x, shift);
      }
      value = inside(extent, value, 0.0f);
      store(panel + i, value, extent);
      return hn::Add(state, value);
    };
  };
  return is_near ? fold_columns(depth, 0, next(std::false_type()), kSum) : fold_columns(depth, 0, next(std::true_type()), kSum);
}

void gradients_of_panel(float* weights, float* gradients, const float* logsumexp, const float* dots, int64_t count, float scale) {
  const Floats low = splat(kSmallestPower), shift = splat(kExpShift), by = splat(scale);
  for_vectors(count, [&](size_t i, auto extent) HONE_INLINED {
    const Floats x = hn::Sub(load(weights + i, extent), load(logsumexp + i, extent));
    const Floats weight = power_or_zero(x, low, shift);
    const Floats difference = hn::Sub(load(gradients + i, extent), load(dots + i, extent));
    store(weights + i, weight, extent);
    store(gradients + i, hn::Mul(hn::Mul(weight, by), difference), extent);
  });
}

}  // namespace hone::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hone::ops::cpu {

bool has_panel_columns() { return true; }

HWY_EXPORT(range_of_panel);
HWY_EXPORT(sums_of_panel);
HWY_EXPORT(scale_panel);
HWY_EXPORT(exponentials_of_panel);
HWY_EXPORT(powers_of_panel);
HWY_EXPORT(gradients_of_panel);
RangeOfColumns range_of_columns(const float* panel, int64_t depth) { return HWY_DYNAMIC_DISPATCH(range_of_panel)(panel, depth); }
PanelColumns sums_of_columns(const float* panel, int64_t depth) { return HWY_DYNAMIC_DISPATCH(sums_of_panel)(panel, depth); }
void scale_columns(float* panel, int64_t depth, const PanelColumns& factors) {
  HWY_DYNAMIC_DISPATCH(scale_panel)(panel, depth, factors);
}
PanelColumns exponentials_of_columns(float* panel, int64_t depth, const PanelColumns& peaks, bool is_near) {
  return HWY_DYNAMIC_DISPATCH(exponentials_of_panel)(panel, depth, peaks, is_near);
}
PanelColumns powers_of_columns(float* panel, int64_t depth, const PanelColumns& peaks, bool is_near) {
  return HWY_DYNAMIC_DISPATCH(powers_of_panel)(panel, depth, peaks, is_near);
}
void weights_and_gradients(float* weights, float* gradients, const float* logsumexp, const float* dots, int64_t count,
                           float scale) {
  HWY_DYNAMIC_DISPATCH(gradients_of_panel)(weights, gradients, logsumexp, dots, count, scale);
}

}  // namespace hone::ops::cpu
#endif

#endif
