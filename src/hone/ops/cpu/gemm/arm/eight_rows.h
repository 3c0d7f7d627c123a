// Eight rows of inputs times a few rows of a weight on Arm: rows are adjacent in the lanes of a register, and each weight element
// is one lane of another register, so nothing is added across lanes. 16-bit weights are widened three rows at a time, for all
// groups of eight inputs: each widening costs a Neoverse-N1 the time of three multiplications (0.73 of its peak, this way 0.9).
#pragma once
#include <algorithm>
#include <type_traits>
#include <vector>

#include "hone/ops/cpu/gemm/dot_accumulate.h"
#include "hone/ops/cpu/gemm/skinny_gemm_kernels.h"

#if defined(__aarch64__)

namespace hone::ops::cpu {

constexpr int64_t kEightRows = 8, kEightOutputs = 3, kFourSteps = 4;

// The sums of one output for eight rows. Steps are distributed over four sums, which are added like the lanes of a
// DotAccumulator: bit-identical to a single row.
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

// One step of three outputs. Prevents the compiler from loading those of later steps early, for which there are no registers.
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

// x [steps, 8] and three rows of a weight, both zero-padded to multiples of four; y [8, stride y_stride] for up to three outputs.
// Prefetches `bytes` from `ahead` on for every four steps.
HONE_INLINE void eight_rows_of_three(const float* x, const float* weight, int64_t padded, int64_t outputs, float* y,
                                     int64_t y_stride, const char* ahead, int64_t bytes) {
  const float *first = weight, *second = weight + padded, *third = weight + 2 * padded;
  EightSums a = no_sums(), b = no_sums(), c = no_sums();
  for (int64_t i = 0; i < padded; i += kFourSteps, x += kFourSteps * kEightRows, ahead += bytes) {
    __builtin_prefetch(ahead);
    add_four_steps(a, b, c, x, vld1q_f32(first + i), vld1q_f32(second + i), vld1q_f32(third + i));
  }
  a.put(y, y_stride);
  if (outputs > 1) b.put(y + 1, y_stride);
  if (outputs > 2) c.put(y + 2, y_stride);
}

// A row of a weight in float32, zero-padded to `padded`.
template <class T>
HONE_INLINE void widen_row(const T* from, float* to, int64_t width, int64_t padded) {
  for_each_vector(
      width, [&](int64_t i, auto extent)
                 __attribute__((always_inline)) { store_factor(to + i, load_factor(from + i, extent), extent); });
  for (int64_t i = width; i < padded; ++i) to[i] = 0;
}

// All outputs of shape.rows rows, a multiple of eight. `packed_row`: floats per row of x.
template <class T>
HONE_INLINE void outputs_of_eights(const float* x, const T* weight, float* y, const SkinnyShape& shape, int64_t packed_row) {
  constexpr int64_t kBytes = kFourSteps * kEightOutputs * sizeof(T);
  const int64_t padded = (shape.width + kFourSteps - 1) / kFourSteps * kFourSteps;
  thread_local std::vector<float> wide;
  wide.resize(static_cast<size_t>(kEightOutputs * padded));
  for (int64_t n = 0; n < shape.count; n += kEightOutputs) {
    const int64_t outputs = std::min(kEightOutputs, shape.count - n);
    const T* rows = weight + n * shape.width;
    const float* three = wide.data();
    if constexpr (std::is_same_v<T, float>)
      if (outputs == kEightOutputs && padded == shape.width) three = rows;
    if (three == wide.data())
      for (int64_t k = 0; k < outputs; ++k) widen_row(rows + k * shape.width, wide.data() + k * padded, shape.width, padded);
    const auto* next = reinterpret_cast<const char*>(rows + kEightOutputs * shape.width);
    for (int64_t m = 0; m < shape.rows; m += kEightRows)
      eight_rows_of_three(x + m * packed_row, three, padded, outputs, y + m * shape.y_stride + n, shape.y_stride, next,
                          m == 0 ? kBytes : 0);
  }
}

// Eight rows of x interleaved step by step, zero-padded to `padded` steps.
template <class T>
HONE_INLINE void pack_eight_rows(const T* x, float* packed, int64_t width, int64_t padded) {
  for (int64_t m = 0; m < kEightRows; ++m) {
    for (int64_t i = 0; i < width; ++i) packed[i * kEightRows + m] = static_cast<float>(x[m * width + i]);
    for (int64_t i = width; i < padded; ++i) packed[i * kEightRows + m] = 0;
  }
}

}  // namespace hone::ops::cpu

#endif
