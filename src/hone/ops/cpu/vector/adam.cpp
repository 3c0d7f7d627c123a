#include "hone/ops/cpu/vector/adam.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "hone/ops/cpu/vector/adam.cpp"
#include <hwy/foreach_target.h>

#include "hone/ops/cpu/vector/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace hone::ops::cpu::HWY_NAMESPACE {

// Exactly x / divisor, as the division instruction rounds it: an approximate quotient, off by at most two ulps, corrected twice
// by its remainder (Markstein). Processors have one slow divider, which is left to the other division. On a Neoverse-N1, the
// instruction is faster: it waits for results more than for its divider.
HWY_INLINE Floats divided(Floats x, Floats divisor, Floats reciprocal) {
  if constexpr (HWY_ARCH_ARM) return hn::Div(x, divisor);
  const Floats guess = hn::Mul(x, reciprocal);
  const Floats near = hn::MulAdd(hn::NegMulAdd(guess, divisor, x), reciprocal, guess);
  const Floats exact = hn::MulAdd(hn::NegMulAdd(near, divisor, x), reciprocal, near);
  return hn::IfThenElse(hn::Eq(x, splat(INFINITY)), x, exact);
}

template <AdamRounding rounding>
HWY_INLINE Floats second_moment(Floats second, Floats gradient, Floats beta2, Floats weight2) {
  const Floats weighted = hn::Mul(weight2, gradient);
  if constexpr (rounding == AdamRounding::fused_square) return hn::MulAdd(weighted, gradient, hn::Mul(second, beta2));
  if constexpr (rounding == AdamRounding::fused_decay) return hn::MulAdd(second, beta2, hn::Mul(weighted, gradient));
  return hn::Add(hn::Mul(second, beta2), hn::Mul(weighted, gradient));
}

template <AdamRounding rounding>
HWY_INLINE void update(float* parameter, const float* gradient, float* first, float* second, int64_t count,
                       const AdamStep& step) {
  const Floats keep = splat(step.keep), rate = splat(step.rate), beta2 = splat(step.beta2), weight2 = splat(step.weight2),
               epsilon = splat(step.epsilon);
  const Floats correction = splat(step.correction2), reciprocal = splat(1.0f / step.correction2);
  const bool from_first = step.weight1 < 0.5f;  // as in lerp: from the nearer end
  const Floats weight1 = splat(from_first ? step.weight1 : step.weight1 - 1.0f);
  auto compute = [&](size_t i, auto extent, Floats& m, Floats& v, Floats& p) HONE_INLINED {
    const Floats g = load(gradient + i, extent), before = load(first + i, extent);
    m = hn::MulAdd(weight1, hn::Sub(g, before), from_first ? before : g);
    v = second_moment<rounding>(load(second + i, extent), g, beta2, weight2);
    const Floats denominator = hn::Add(divided(hn::Sqrt(v), correction, reciprocal), epsilon);
    p = hn::Sub(hn::Mul(load(parameter + i, extent), keep), hn::Div(hn::Mul(rate, m), denominator));
  };
  auto keep_results = [&](size_t i, auto extent, Floats m, Floats v, Floats p) HONE_INLINED {
    store(first + i, m, extent), store(second + i, v, extent), store(parameter + i, p, extent);
  };
  const size_t total = static_cast<size_t>(count), n = hn::Lanes(FloatTag());
  Floats m = keep, v = keep, p = keep, other_m = keep, other_v = keep, other_p = keep;
  size_t i = 0;
  for (; i + 2 * n <= total; i += 2 * n) {  // two at a time, since each is a long dependency chain
    compute(i, FullVector{}, m, v, p);
    compute(i + n, FullVector{}, other_m, other_v, other_p);
    keep_results(i, FullVector{}, m, v, p);
    keep_results(i + n, FullVector{}, other_m, other_v, other_p);
  }
  for (; i < total; i += n) {
    const VectorTail tail{std::min(n, total - i)};
    compute(i, tail, m, v, p);
    keep_results(i, tail, m, v, p);
  }
}

void adam_span(float* parameter, const float* gradient, float* first, float* second, int64_t count, const AdamStep& step) {
  if (step.rounding == AdamRounding::fused_square)
    return update<AdamRounding::fused_square>(parameter, gradient, first, second, count, step);
  if (step.rounding == AdamRounding::fused_decay)
    return update<AdamRounding::fused_decay>(parameter, gradient, first, second, count, step);
  update<AdamRounding::separate>(parameter, gradient, first, second, count, step);
}

}  // namespace hone::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hone::ops::cpu {

HWY_EXPORT(adam_span);
void adam_span(float* parameter, const float* gradient, float* first, float* second, int64_t count, const AdamStep& step) {
  HWY_DYNAMIC_DISPATCH(adam_span)(parameter, gradient, first, second, count, step);
}

}  // namespace hone::ops::cpu
#endif
