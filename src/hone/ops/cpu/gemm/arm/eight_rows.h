// Eight rows of inputs against a few rows of a weight on Arm: rows stand side by side in the registers' lanes, each number of the
// weight is one lane of another register. Nothing is added across lanes, and 16-bit weights are widened where they are
// multiplied.
#pragma once
#include "hone/ops/cpu/gemm/dot_accumulate.h"
#include "hone/ops/cpu/gemm/skinny_gemm_kernels.h"

#if defined(__aarch64__)

namespace hone::ops::cpu {

constexpr int64_t kEightRows = 8, kEightOutputs = 3, kFourSteps = 4;

HONE_INLINE float32x4_t widened_four(const float* from) { return vld1q_f32(from); }
HONE_INLINE float32x4_t widened_four(const c10::BFloat16* from) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(reinterpret_cast<const uint16_t*>(from)), 16));
}
HONE_INLINE float32x4_t widened_four(const c10::Half* from) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const uint16_t*>(from))));
}

// What one output adds up for eight rows. Its steps go to four sums in turn, which are added as the lanes of a DotAccumulator
// are: the bits are those of a row by itself.
struct EightSums {
  float32x4_t a0, a1, a2, a3, b0, b1, b2, b3;  // a: the first four rows

  HONE_INLINE void put(float* y, int64_t stride) const {
    float rows[kEightRows];
    vst1q_f32(rows, vaddq_f32(vaddq_f32(a0, a2), vaddq_f32(a1, a3)));
    vst1q_f32(rows + 4, vaddq_f32(vaddq_f32(b0, b2), vaddq_f32(b1, b3)));
    for (int64_t m = 0; m < kEightRows; ++m) y[m * stride] = rows[m];
  }
};
HONE_INLINE EightSums no_sums() {
  const float32x4_t zero = vdupq_n_f32(0);
  return {zero, zero, zero, zero, zero, zero, zero, zero};
}

// One step of three outputs. The compiler is kept from loading those of later steps before, for which there are no registers.
#define HONE_EIGHT_STEP(A, B, STEP)                                                                           \
  do {                                                                                                        \
    asm volatile("" ::: "memory");                                                                            \
    const float32x4_t above = vld1q_f32(x + (STEP)*kEightRows), below = vld1q_f32(x + (STEP)*kEightRows + 4); \
    a.A = vfmaq_laneq_f32(a.A, above, u, STEP), a.B = vfmaq_laneq_f32(a.B, below, u, STEP);                   \
    b.A = vfmaq_laneq_f32(b.A, above, v, STEP), b.B = vfmaq_laneq_f32(b.B, below, v, STEP);                   \
    c.A = vfmaq_laneq_f32(c.A, above, w, STEP), c.B = vfmaq_laneq_f32(c.B, below, w, STEP);                   \
  } while (false)

HONE_INLINE void add_four_steps(EightSums& a, EightSums& b, EightSums& c, const float* x, float32x4_t u, float32x4_t v,
                                float32x4_t w) {
  HONE_EIGHT_STEP(a0, b0, 0);
  HONE_EIGHT_STEP(a1, b1, 1);
  HONE_EIGHT_STEP(a2, b2, 2);
  HONE_EIGHT_STEP(a3, b3, 3);
}
#undef HONE_EIGHT_STEP

// Steps of a row's end that are fewer than four.
template <class T>
HONE_INLINE float32x4_t load_rest(const T* from, int64_t count) {
  T whole[kFourSteps];
  std::memset(static_cast<void*>(whole), 0, sizeof whole);
  std::memcpy(static_cast<void*>(whole), from, static_cast<size_t>(count) * sizeof(T));
  return widened_four(whole);
}

// x [steps, 8], padded with zeros to whole fours; y [8, stride y_stride] for up to three of
// `outputs`. The next three are asked of memory on the way.
template <class T>
HONE_INLINE void eight_rows_of_three(const float* x, const T* weight, int64_t outputs, float* y, const SkinnyShape& shape) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  const int64_t width = shape.width, whole = width / kFourSteps * kFourSteps;
  const T *first = weight, *second = outputs > 1 ? weight + width : weight, *third = outputs > 2 ? weight + 2 * width : weight;
  EightSums a = no_sums(), b = no_sums(), c = no_sums();
  for (int64_t i = 0; i < whole; i += kFourSteps, x += kFourSteps * kEightRows) {
    if (i % kLine == 0)
      for (int64_t next = kEightOutputs; next < 2 * kEightOutputs; ++next) __builtin_prefetch(weight + next * width + i);
    add_four_steps(a, b, c, x, widened_four(first + i), widened_four(second + i), widened_four(third + i));
  }
  if (whole < width) {
    const int64_t rest = width - whole;
    add_four_steps(a, b, c, x, load_rest(first + whole, rest), load_rest(second + whole, rest), load_rest(third + whole, rest));
  }
  a.put(y, shape.y_stride);
  if (outputs > 1) b.put(y + 1, shape.y_stride);
  if (outputs > 2) c.put(y + 2, shape.y_stride);
}

// Eight rows of x side by side, step by step, and zeros up to `padded` steps.
template <class T>
HONE_INLINE void pack_eight_rows(const T* x, float* packed, int64_t width, int64_t padded) {
  for (int64_t m = 0; m < kEightRows; ++m) {
    for (int64_t i = 0; i < width; ++i) packed[i * kEightRows + m] = static_cast<float>(x[m * width + i]);
    for (int64_t i = width; i < padded; ++i) packed[i * kEightRows + m] = 0;
  }
}

}  // namespace hone::ops::cpu

#endif
