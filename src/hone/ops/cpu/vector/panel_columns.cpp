#if defined(__aarch64__)

#include "hone/ops/cpu/vector/panel_columns.h"

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
  float lanes[3 * HWY_LANES(float)];
  store(lanes, a, FullVector{}), store(lanes + n, b, FullVector{}), store(lanes + 2 * n, c, FullVector{});
  PanelColumns columns;
  for (size_t k = 0; k < 3 * n; ++k) {
    float& column = columns.of[k % kPanelColumns];
    column = k < static_cast<size_t>(kPanelColumns) ? lanes[k] : merge(column, lanes[k]);
  }
  return columns;
}

constexpr auto kSum = [](float x, float y) { return x + y; };

RangeOfColumns range_of_panel(const float* panel, int64_t depth) {
  auto larger = [&](Floats state, size_t i, auto extent, size_t)
                    HONE_INLINED { return hn::Max(state, inside(extent, load(panel + i, extent), -INFINITY)); };
  auto smaller = [&](Floats state, size_t i, auto extent, size_t)
                     HONE_INLINED { return hn::Min(state, inside(extent, load(panel + i, extent), INFINITY)); };
  return {fold_columns(depth, -INFINITY, larger, [](float x, float y) { return x > y ? x : y; }),
          fold_columns(depth, INFINITY, smaller, [](float x, float y) { return x < y ? x : y; })};
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

}  // namespace hone::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hone::ops::cpu {

HWY_EXPORT(range_of_panel);
HWY_EXPORT(sums_of_panel);
HWY_EXPORT(scale_panel);
HWY_EXPORT(exponentials_of_panel);
RangeOfColumns range_of_columns(const float* panel, int64_t depth) { return HWY_DYNAMIC_DISPATCH(range_of_panel)(panel, depth); }
PanelColumns sums_of_columns(const float* panel, int64_t depth) { return HWY_DYNAMIC_DISPATCH(sums_of_panel)(panel, depth); }
void scale_columns(float* panel, int64_t depth, const PanelColumns& factors) {
  HWY_DYNAMIC_DISPATCH(scale_panel)(panel, depth, factors);
}
PanelColumns exponentials_of_columns(float* panel, int64_t depth, const PanelColumns& peaks, bool is_near) {
  return HWY_DYNAMIC_DISPATCH(exponentials_of_panel)(panel, depth, peaks, is_near);
}

}  // namespace hone::ops::cpu
#endif

#endif
