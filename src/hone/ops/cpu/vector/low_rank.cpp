#include "hone/ops/cpu/vector/low_rank.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "hone/ops/cpu/vector/low_rank.cpp"
#include <hwy/foreach_target.h>

#include "hone/ops/cpu/vector/vectors.h"

HWY_BEFORE_NAMESPACE();
namespace hone::ops::cpu::HWY_NAMESPACE {

HWY_INLINE float total(Floats sum) { return hn::GetLane(hn::SumOfLanes(FloatTag(), sum)); }

void project_rows(const float* x, int64_t count, int64_t width, const EightRows& eight, float scale, float* p, int64_t stride) {
  const auto [r0, r1, r2, r3, r4, r5, r6, r7] = eight.rows;
  for (int64_t t = 0; t < count; ++t, x += width, p += stride) {
    Floats s0 = splat(0), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    for_vectors(width, [&](size_t i, auto extent) HONE_INLINED {
      const Floats value = load(x + i, extent);
      s0 = hn::MulAdd(value, load(r0 + i, extent), s0), s1 = hn::MulAdd(value, load(r1 + i, extent), s1);
      s2 = hn::MulAdd(value, load(r2 + i, extent), s2), s3 = hn::MulAdd(value, load(r3 + i, extent), s3);
      s4 = hn::MulAdd(value, load(r4 + i, extent), s4), s5 = hn::MulAdd(value, load(r5 + i, extent), s5);
      s6 = hn::MulAdd(value, load(r6 + i, extent), s6), s7 = hn::MulAdd(value, load(r7 + i, extent), s7);
    });
    p[0] = scale * total(s0), p[1] = scale * total(s1), p[2] = scale * total(s2), p[3] = scale * total(s3);
    p[4] = scale * total(s4), p[5] = scale * total(s5), p[6] = scale * total(s6), p[7] = scale * total(s7);
  }
}

void expand_rows(const float* p, int64_t stride, int64_t count, const EightRows& eight, int64_t width, bool adds, float* y) {
  const auto [r0, r1, r2, r3, r4, r5, r6, r7] = eight.rows;
  for_vectors(width, [&](size_t i, auto extent) HONE_INLINED {
    const Floats f0 = load(r0 + i, extent), f1 = load(r1 + i, extent), f2 = load(r2 + i, extent), f3 = load(r3 + i, extent),
                 f4 = load(r4 + i, extent), f5 = load(r5 + i, extent), f6 = load(r6 + i, extent), f7 = load(r7 + i, extent);
    const float* of = p;
    float* to = y + i;
    for (int64_t t = 0; t < count; ++t, of += stride, to += width) {
      Floats even = hn::Mul(f0, splat(of[0])), odd = hn::Mul(f1, splat(of[1]));
      even = hn::MulAdd(f2, splat(of[2]), even), odd = hn::MulAdd(f3, splat(of[3]), odd);
      even = hn::MulAdd(f4, splat(of[4]), even), odd = hn::MulAdd(f5, splat(of[5]), odd);
      even = hn::MulAdd(f6, splat(of[6]), even), odd = hn::MulAdd(f7, splat(of[7]), odd);
      const Floats sum = hn::Add(even, odd);
      store(to, adds ? hn::Add(load(to, extent), sum) : sum, extent);
    }
  });
}

void outer_rows(const float* p, int64_t stride, const float* x, int64_t count, int64_t width, int64_t rows, float* to) {
  for_vectors(width, [&](size_t i, auto extent) HONE_INLINED {
    Floats s0 = splat(0), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    const float *of = p, *from = x + i;
    for (int64_t t = 0; t < count; ++t, of += stride, from += width) {
      const Floats value = load(from, extent);
      s0 = hn::MulAdd(value, splat(of[0]), s0), s1 = hn::MulAdd(value, splat(of[1]), s1);
      s2 = hn::MulAdd(value, splat(of[2]), s2), s3 = hn::MulAdd(value, splat(of[3]), s3);
      s4 = hn::MulAdd(value, splat(of[4]), s4), s5 = hn::MulAdd(value, splat(of[5]), s5);
      s6 = hn::MulAdd(value, splat(of[6]), s6), s7 = hn::MulAdd(value, splat(of[7]), s7);
    }
    auto keep = [&](int64_t j, Floats sum) HONE_INLINED {
      if (j < rows) store(to + j * width + static_cast<int64_t>(i), sum, extent);
    };
    keep(0, s0), keep(1, s1), keep(2, s2), keep(3, s3), keep(4, s4), keep(5, s5), keep(6, s6), keep(7, s7);
  });
}

}  // namespace hone::ops::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hone::ops::cpu {

HWY_EXPORT(project_rows);
HWY_EXPORT(expand_rows);
HWY_EXPORT(outer_rows);
void project_rows(const float* x, int64_t count, int64_t width, const EightRows& eight, float scale, float* p, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(project_rows)(x, count, width, eight, scale, p, stride);
}
void expand_rows(const float* p, int64_t stride, int64_t count, const EightRows& eight, int64_t width, bool adds, float* y) {
  HWY_DYNAMIC_DISPATCH(expand_rows)(p, stride, count, eight, width, adds, y);
}
void outer_rows(const float* p, int64_t stride, const float* x, int64_t count, int64_t width, int64_t rows, float* to) {
  HWY_DYNAMIC_DISPATCH(outer_rows)(p, stride, x, count, width, rows, to);
}

}  // namespace hone::ops::cpu
#endif
