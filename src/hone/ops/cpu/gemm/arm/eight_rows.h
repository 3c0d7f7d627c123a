// Eight rows of inputs times a few rows of a weight on Arm: rows are adjacent in the lanes of a register, and each weight element
// is one lane of another register, so nothing is added across lanes. 16-bit weights are widened three rows at a time, for all
// groups of eight inputs: between multiplications each widening costs a Neoverse-N1 the time of three of them.
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

HONE_INLINE EightSums kept_sums(const float* from) {
  return {vld1q_f32(from),      vld1q_f32(from + 4),  vld1q_f32(from + 8),  vld1q_f32(from + 12),
          vld1q_f32(from + 16), vld1q_f32(from + 20), vld1q_f32(from + 24), vld1q_f32(from + 28)};
}
HONE_INLINE void keep_sums(const EightSums& sums, float* to) {
  vst1q_f32(to, sums.a0), vst1q_f32(to + 4, sums.a1), vst1q_f32(to + 8, sums.a2), vst1q_f32(to + 12, sums.a3);
  vst1q_f32(to + 16, sums.b0), vst1q_f32(to + 20, sums.b1), vst1q_f32(to + 24, sums.b2), vst1q_f32(to + 28, sums.b3);
}

constexpr int64_t kOneOfThree = 4 * kEightRows, kThreeSums = kEightOutputs * kOneOfThree;  // floats of kept sums

// What is prefetched meanwhile: as many steps of three lines, one line in each quarter of the steps, `bytes` of it at a time.
struct NextThree {
  const char* first;
  int64_t stride, bytes;
};

// Where the sums of eight rows and up to three outputs go after the last step.
struct EightOutputs {
  float* y;
  int64_t stride, count;
};

// x [steps, 8] times three lines of a weight, `stride` apart; steps are a multiple of four. `kept`: the sums of the steps before,
// none if it starts, and after, unless there are outputs to store.
HONE_INLINE void eight_rows_of_three(const float* x, const float* weight, int64_t stride, int64_t steps, float* kept, bool starts,
                                     NextThree next, const EightOutputs& outputs) {
  const float *first = weight, *second = weight + stride, *third = weight + 2 * stride;
  EightSums a = starts ? no_sums() : kept_sums(kept), b = starts ? no_sums() : kept_sums(kept + kOneOfThree),
            c = starts ? no_sums() : kept_sums(kept + 2 * kOneOfThree);
  const int64_t quarter = (steps / 4 + kFourSteps - 1) / kFourSteps * kFourSteps;
  for (int64_t i = 0, end = 0; i < steps; next.first += next.stride) {
    end = std::min(end + quarter, steps);
    for (const char* ahead = next.first; i < end; i += kFourSteps, x += kFourSteps * kEightRows, ahead += next.bytes) {
      __builtin_prefetch(ahead);
      add_four_steps(a, b, c, x, vld1q_f32(first + i), vld1q_f32(second + i), vld1q_f32(third + i));
    }
  }
  if (outputs.count == 0) return keep_sums(a, kept), keep_sums(b, kept + kOneOfThree), keep_sums(c, kept + 2 * kOneOfThree);
  a.put(outputs.y, outputs.stride);
  if (outputs.count > 1) b.put(outputs.y + 1, outputs.stride);
  if (outputs.count > 2) c.put(outputs.y + 2, outputs.stride);
}

// A row of a weight in float32, zero-padded to `padded`.
template <class T>
HONE_INLINE void widen_row(const T* from, float* to, int64_t width, int64_t padded) {
  for_each_vector(
      width, [&](int64_t i, auto extent)
                 __attribute__((always_inline)) { store_factor(to + i, load_factor(from + i, extent), extent); });
  for (int64_t i = width; i < padded; ++i) to[i] = 0;
}

// How the steps of a product are split, so that the inputs of a slab and the sums of a few outputs stay in the L1 cache: read
// from the L2 cache for every three outputs, inputs allow three quarters of the multiplications.
struct EightSlabs {
  static constexpr int64_t kInputs = 8192, kSums = 4096;  // floats

  EightSlabs(int64_t rows, int64_t width) {
    const int64_t most = std::max<int64_t>(kVectorWidth, kInputs / rows), slabs = (width + most - 1) / most;
    steps = ((width + slabs - 1) / slabs + kVectorWidth - 1) / kVectorWidth * kVectorWidth;
    outputs = std::max<int64_t>(1, kSums / (rows / kEightRows * kThreeSums)) * kEightOutputs;
  }
  int64_t steps, outputs;
};

// All outputs of shape.rows rows, a multiple of eight. `packed_row`: floats per row of x.
template <class T>
HONE_INLINE void outputs_of_eights(const float* x, const T* weight, float* y, const SkinnyShape& shape, int64_t packed_row) {
  const EightSlabs slabs(shape.rows, shape.width);
  const int64_t groups = shape.rows / kEightRows;
  thread_local std::vector<float> wide, kept;
  wide.resize(static_cast<size_t>(kEightOutputs * slabs.steps));
  kept.resize(static_cast<size_t>(slabs.outputs / kEightOutputs * groups * kThreeSums));
  for (int64_t begin = 0; begin < shape.count; begin += slabs.outputs) {
    const int64_t end = std::min(begin + slabs.outputs, shape.count);
    for (int64_t step = 0; step < shape.width; step += slabs.steps) {
      const int64_t width = std::min(slabs.steps, shape.width - step), steps = (width + kFourSteps - 1) / kFourSteps * kFourSteps;
      const bool ends = step + width == shape.width;
      float* sums = kept.data();
      for (int64_t n = begin; n < end; n += kEightOutputs) {
        const int64_t outputs = std::min(kEightOutputs, end - n);
        const T* rows = weight + n * shape.width + step;
        const float* three = wide.data();
        int64_t stride = slabs.steps;
        if constexpr (std::is_same_v<T, float>)
          if (outputs == kEightOutputs && steps == width) three = rows, stride = shape.width;
        if (three == wide.data())
          for (int64_t k = 0; k < outputs; ++k) widen_row(rows + k * shape.width, wide.data() + k * stride, width, steps);
        const T* after = n + kEightOutputs < end ? rows + kEightOutputs * shape.width
                         : ends                  ? weight + end * shape.width
                                                 : weight + begin * shape.width + step + slabs.steps;
        NextThree next{reinterpret_cast<const char*>(after), shape.width * static_cast<int64_t>(sizeof(T)),
                       4 * kFourSteps * static_cast<int64_t>(sizeof(T))};
        for (int64_t m = 0; m < shape.rows; m += kEightRows, sums += kThreeSums) {
          eight_rows_of_three(x + m * packed_row + step * kEightRows, three, stride, steps, sums, step == 0, next,
                              {y + m * shape.y_stride + n, shape.y_stride, ends ? outputs : 0});
          next.stride = next.bytes = 0;  // by the first eight rows only
        }
      }
    }
  }
}

// Eight rows of x interleaved step by step, zero-padded to a multiple of sixteen steps.
template <class T>
HONE_INLINE void pack_eight_rows(const T* x, float* packed, int64_t width) {
  const auto transpose = [](const float32x4_t(&rows)[4], float* to) __attribute__((always_inline)) {
    const float32x4_t ab = vzip1q_f32(rows[0], rows[2]), cd = vzip1q_f32(rows[1], rows[3]), ef = vzip2q_f32(rows[0], rows[2]),
                      gh = vzip2q_f32(rows[1], rows[3]);
    vst1q_f32(to, vzip1q_f32(ab, cd)), vst1q_f32(to + kEightRows, vzip2q_f32(ab, cd));
    vst1q_f32(to + 2 * kEightRows, vzip1q_f32(ef, gh)), vst1q_f32(to + 3 * kEightRows, vzip2q_f32(ef, gh));
  };
  for (int64_t half = 0; half < kEightRows; half += 4)
    for_each_vector(
        width, [&](int64_t i, auto extent) __attribute__((always_inline)) {
          const T* from = x + half * width + i;
          const DotOperand a = load_factor(from, extent), b = load_factor(from + width, extent),
                           c = load_factor(from + 2 * width, extent), d = load_factor(from + 3 * width, extent);
          float* to = packed + i * kEightRows + half;
          transpose({a.a, b.a, c.a, d.a}, to), transpose({a.b, b.b, c.b, d.b}, to + 4 * kEightRows);
          transpose({a.c, b.c, c.c, d.c}, to + 8 * kEightRows), transpose({a.d, b.d, c.d, d.d}, to + 12 * kEightRows);
        });
}

}  // namespace hone::ops::cpu

#endif
