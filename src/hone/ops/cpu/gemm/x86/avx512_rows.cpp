#include "hone/ops/cpu/gemm/x86/avx512_rows.h"

#include "hone/base/error.h"
#include "hone/base/x86_intrinsics.h"
#include "hone/ops/cpu/scratch.h"
#include "hone/ops/cpu/simd.h"

#define HONE_OF_ROW_TYPES(DO) DO(float) DO(c10::BFloat16) DO(c10::Half)

namespace hone::ops::cpu {

#if defined(__x86_64__)

namespace {

#define HONE_AVX512 __attribute__((target("arch=x86-64-v4")))

constexpr int64_t kStepInputs = 2 * kVectorWidth;  // two vectors of each row and each output
// InputRange at a time: those of eight rows are 16 KB. A longer sum is kept in memory between them.
constexpr int64_t kInputsAtATime = 512;
// All rows pass over this much of the weight. With the next piece, on its way meanwhile, it takes an eighth of the L2 cache, so
// that few lines are lost to others of the same set.
constexpr int64_t kWeightBytesAtATime = int64_t{64} << 10;
constexpr int64_t kMostOutputs = 192;
constexpr int64_t kLineSize = 64;

// The first and the second vector of 32 inputs.
HONE_AVX512 HONE_INLINE F32x16 first_of(const float* from) { return load(from, FullVector{}); }
HONE_AVX512 HONE_INLINE F32x16 second_of(const float* from) { return load(from + kVectorWidth, FullVector{}); }
HONE_AVX512 HONE_INLINE F32x16 first_of(const c10::BFloat16* from) {
  I32x16 pairs;
  std::memcpy(&pairs, from, sizeof pairs);
  return reinterpret_cast<F32x16>(pairs << 16);
}
HONE_AVX512 HONE_INLINE F32x16 second_of(const c10::BFloat16* from) {
  return reinterpret_cast<F32x16>(_mm512_maskz_loadu_epi16(0xAAAAAAAA, from));
}
HONE_AVX512 HONE_INLINE F32x16 first_of(const c10::Half* from) {
  return reinterpret_cast<F32x16>(_mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
}
HONE_AVX512 HONE_INLINE F32x16 second_of(const c10::Half* from) { return first_of(from + kVectorWidth); }

// The last inputs of a row, and zeros.
template <class T>
struct LastInputs {
  alignas(kLineSize) T all[kStepInputs];

  HONE_INLINE LastInputs(const T* from, int64_t count) {
    std::memset(static_cast<void*>(all), 0, sizeof all);
    std::memcpy(static_cast<void*>(all), from, static_cast<size_t>(count) * sizeof(T));
  }
};

HONE_AVX512 HONE_INLINE F32x16 multiply_add(F32x16 a, F32x16 b, F32x16 sum) {
  return reinterpret_cast<F32x16>(
      _mm512_fmadd_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(sum)));
}

// Products of X rows and W outputs, in registers.
template <int64_t X, int64_t W>
struct RowTileSums {
  F32x16 of[W * X];
};

template <int64_t X, int64_t W>
HONE_AVX512 HONE_INLINE void add_products(const float* x, const F32x16 (&weights)[W], RowTileSums<X, W>& sums) {
#pragma GCC unroll 8
  for (int64_t m = 0; m < X; ++m) {
    F32x16 row = load(x + m * kStepInputs, FullVector{});
    asm("" : "+v"(row));  // otherwise it is loaded again for each output, which the two load units cannot do
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) sums.of[n * X + m] = multiply_add(row, weights[n], sums.of[n * X + m]);
  }
}

// `line(n)`: the 32 weights of an output.
template <int64_t X, int64_t W, class Line>
HONE_AVX512 HONE_INLINE void add_step(const float* x, Line line, RowTileSums<X, W>& sums) {
  F32x16 weights[W];
#pragma GCC unroll 8
  for (int64_t n = 0; n < W; ++n) weights[n] = first_of(line(n));
  add_products<X, W>(x, weights, sums);
#pragma GCC unroll 8
  for (int64_t n = 0; n < W; ++n) weights[n] = second_of(line(n));
  add_products<X, W>(x + kVectorWidth, weights, sums);
}

// horizontal_sum() of eight vectors, to[0] to to[7]: each addition serves several of them.
HONE_AVX512 HONE_INLINE void eight_horizontal_sums(const F32x16* v, float* (&to)[8]) {
  F32x16 a[4], b[2];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    a[i] = __builtin_shufflevector(v[i], v[4 + i], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
           __builtin_shufflevector(v[i], v[4 + i], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i)
    b[i] = __builtin_shufflevector(a[i], a[2 + i], 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
           __builtin_shufflevector(a[i], a[2 + i], 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  const F32x16 pairs = __builtin_shufflevector(b[0], b[1], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
                       __builtin_shufflevector(b[0], b[1], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  const F32x16 sums = pairs + __builtin_shufflevector(pairs, pairs, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  alignas(kLineSize) float all[kVectorWidth];
  std::memcpy(all, &sums, sizeof sums);
  *to[0] = all[0], *to[1] = all[2], *to[4] = all[4], *to[5] = all[6];
  *to[2] = all[8], *to[3] = all[10], *to[6] = all[12], *to[7] = all[14];
}

template <int64_t X, int64_t W>
HONE_AVX512 HONE_INLINE void put_tile(const RowTileSums<X, W>& sums, float* y, int64_t stride) {
  if constexpr (X * W % 8 == 0) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < X * W; i += 8) {
      float* to[8];
#pragma GCC unroll 8
      for (int64_t j = 0; j < 8; ++j) to[j] = y + (i + j) % X * stride + (i + j) / X;
      eight_horizontal_sums(sums.of + i, to);
    }
  } else {
#pragma GCC unroll 8
    for (int64_t i = 0; i < X * W; ++i) y[i % X * stride + i / X] = horizontal_sum(sums.of[i]);
  }
}

// Part of a layer: inputs from `from` on, of a weight `width` wide.
struct InputRange {
  int64_t from, count, width;
  bool are_first() const { return from == 0; }
  bool are_last() const { return from + count == width; }
};

// The weights to prefetch: from `at` on, so many bytes for each 32 inputs of a tile.
struct WeightPrefetch {
  const char* at;
  int64_t pace;
};

// X rows times W outputs. `kept` has the sums between blocks of inputs. Returns where prefetching got to.
template <int64_t X, int64_t W, class T>
HONE_AVX512 HONE_INLINE const char* row_tile(const float* x, const T* weight, const InputRange& inputs, F32x16* kept, float* y,
                                             int64_t y_stride, WeightPrefetch ahead) {
  RowTileSums<X, W> sums;
#pragma GCC unroll 24
  for (int64_t i = 0; i < X * W; ++i) sums.of[i] = inputs.are_first() ? F32x16{} : kept[i];
  const T* lines = weight + inputs.from;
  int64_t i = 0;
  for (; i + kStepInputs <= inputs.count; i += kStepInputs, x += X * kStepInputs, ahead.at += ahead.pace) {
    __builtin_prefetch(ahead.at, 0, 2);
    __builtin_prefetch(ahead.at + kLineSize, 0, 2);
    add_step<X, W>(
        x, [&](int64_t n) __attribute__((always_inline)) { return lines + n * inputs.width + i; }, sums);
  }
  if (i < inputs.count)
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) {
      const LastInputs<T> last(lines + n * inputs.width + i, inputs.count - i);
#pragma GCC unroll 8
      for (int64_t m = 0; m < X; ++m) {
        F32x16& sum = sums.of[n * X + m];
        sum = multiply_add(load(x + m * kStepInputs, FullVector{}), first_of(last.all), sum);
        sum = multiply_add(load(x + m * kStepInputs + kVectorWidth, FullVector{}), second_of(last.all), sum);
      }
    }
  if (inputs.are_last()) {
    put_tile<X, W>(sums, y, y_stride);
  } else {
#pragma GCC unroll 24
    for (int64_t j = 0; j < X * W; ++j) kept[j] = sums.of[j];
  }
  return ahead.at;
}

// As many sums as registers hold besides a row and the outputs' weights.
template <int64_t X>
constexpr int64_t kOutputsAtATime = X == 8   ? 3
                                    : X == 4 ? 6
                                    : X == 2 ? 8
                                             : 4;

template <int64_t X, class T>
HONE_AVX512 HONE_INLINE WeightPrefetch rows_outputs(const float* x, const T* weight, float* y, const SkinnyShape& shape,
                                                    float* kept, WeightPrefetch ahead, const char* end) {
  constexpr int64_t W = kOutputsAtATime<X>;
  auto* sums = reinterpret_cast<F32x16*>(kept);
  const int64_t parts = (shape.width + kInputsAtATime - 1) / kInputsAtATime,
                each = (shape.width + parts * kStepInputs - 1) / (parts * kStepInputs) * kStepInputs;
  for (int64_t from = 0; from < shape.width; from += each) {
    const InputRange inputs{from, each < shape.width - from ? each : shape.width - from, shape.width};
    const float* rows = x + from * X;
    int64_t n = 0;
    for (; n + W <= shape.count; n += W) {
      const char* at = row_tile<X, W>(rows, weight + n * shape.width, inputs, sums + n * X, y + n, shape.y_stride, ahead);
      ahead.at = at < end ? at : end;
    }
    for (; n < shape.count; ++n)
      row_tile<X, 1>(rows, weight + n * shape.width, inputs, sums + n * X, y + n, shape.y_stride, WeightPrefetch{ahead.at, 0});
  }
  return ahead;
}

template <class Block>
HONE_AVX512 HONE_INLINE void for_row_blocks(int64_t rows, Block block) {
  int64_t m = 0;
  for (; m + 8 <= rows; m += 8) block.template operator()<8>(m);
  for (; m + 4 <= rows; m += 4) block.template operator()<4>(m);
  for (; m + 2 <= rows; m += 2) block.template operator()<2>(m);
  if (m < rows) block.template operator()<1>(m);
}

// One row is bound by memory. A weight's rows are too short for the hardware's prefetcher, so the next ones are prefetched at
// each step.
template <class T>
HONE_AVX512 HONE_INLINE void outputs_of_row(const float* x, const T* weight, float* y, const SkinnyShape& shape) {
  constexpr int64_t W = kOutputsAtATime<1>;
  int64_t n = 0;
  for (; n + W <= shape.count; n += W) {
    const T* lines = weight + n * shape.width;
    RowTileSums<1, W> sums{};
    int64_t i = 0;
    for (; i + kStepInputs <= shape.width; i += kStepInputs) {
#pragma GCC unroll 4
      for (int64_t next = W; next < 2 * W; ++next)
#pragma GCC unroll 2
        for (int64_t line = 0; line < kStepInputs; line += kLineSize / static_cast<int64_t>(sizeof(T)))
          __builtin_prefetch(lines + next * shape.width + i + line);
      add_step<1, W>(
          x + i, [&](int64_t j) __attribute__((always_inline)) { return lines + j * shape.width + i; }, sums);
    }
    if (i < shape.width)
#pragma GCC unroll 4
      for (int64_t j = 0; j < W; ++j) {
        const LastInputs<T> last(lines + j * shape.width + i, shape.width - i);
        sums.of[j] = multiply_add(load(x + i, FullVector{}), first_of(last.all), sums.of[j]);
        sums.of[j] = multiply_add(load(x + i + kVectorWidth, FullVector{}), second_of(last.all), sums.of[j]);
      }
    put_tile<1, W>(sums, y + n, shape.y_stride);
  }
  const InputRange all{0, shape.width, shape.width};
  for (; n < shape.count; ++n)
    row_tile<1, 1>(x, weight + n * shape.width, all, nullptr, y + n, shape.y_stride,
                   WeightPrefetch{reinterpret_cast<const char*>(weight), 0});
}

template <class T>
HONE_AVX512 HONE_INLINE void all_outputs(const float* x, const T* weight, float* y, const SkinnyShape& shape) {
  if (shape.rows == 1) return outputs_of_row(x, weight, y, shape);
  thread_local AlignedVector<float> kept_sums;
  float* kept = grown(kept_sums, kMostOutputs * 8 * kVectorWidth);
  const int64_t line = shape.width * static_cast<int64_t>(sizeof(T)), fitting = kWeightBytesAtATime / line / 6 * 6,
                piece = fitting < 6              ? 6
                        : fitting < kMostOutputs ? fitting
                                                 : kMostOutputs;
  // A step of eight rows uses the weights of three outputs; all rows pass over them.
  const int64_t pace = 3 * kStepInputs * static_cast<int64_t>(sizeof(T)) * 8 / (shape.rows < 8 ? 8 : shape.rows / 8 * 8);
  for (int64_t n = 0; n < shape.count; n += piece) {
    const int64_t left = shape.count - n;
    SkinnyShape part = shape;
    part.count = piece < left ? piece : left;
    const auto *rows = weight + n * shape.width, *next = rows + part.count * shape.width;
    const char* end = reinterpret_cast<const char*>(next + (piece < left - part.count ? piece : left - part.count) * shape.width);
    WeightPrefetch ahead{reinterpret_cast<const char*>(next), pace};
    for_row_blocks(
        shape.rows, [&]<int64_t X>(int64_t m) HONE_AVX512 __attribute__((always_inline)) {
          ahead = rows_outputs<X>(x + m * avx512_row(shape.width), rows, y + m * shape.y_stride + n, part, kept, ahead, end);
        });
  }
}

template <class T>
HONE_AVX512 HONE_INLINE void pack_steps(const T* x, float* packed, int64_t rows, int64_t width) {
  for_row_blocks(
      rows, [&]<int64_t X>(int64_t first) HONE_AVX512 __attribute__((always_inline)) {
        for (int64_t i = 0; i < width; i += kStepInputs)
          for (int64_t m = 0; m < X; ++m, packed += kStepInputs) {
            const T* from = x + (first + m) * width + i;
            if (i + kStepInputs <= width) {
              store(packed, first_of(from), FullVector{}), store(packed + kVectorWidth, second_of(from), FullVector{});
            } else {
              const LastInputs<T> last(from, width - i);
              store(packed, first_of(last.all), FullVector{}), store(packed + kVectorWidth, second_of(last.all), FullVector{});
            }
          }
      });
}

}  // namespace

bool has_avx512_rows() {
  static const bool kHas = __builtin_cpu_supports("x86-64-v4");
  return kHas;
}

int64_t avx512_row(int64_t width) { return (width + kStepInputs - 1) / kStepInputs * kStepInputs; }

#define HONE_DEFINE(T)                                                                                        \
  HONE_AVX512 void avx512_outputs(const float* packed, const T* weight, float* y, const SkinnyShape& shape) { \
    all_outputs(packed, weight, y, shape);                                                                    \
  }                                                                                                           \
  HONE_AVX512 void pack_avx512_rows(const T* x, float* packed, int64_t rows, int64_t width) {                 \
    pack_steps(x, packed, rows, width);                                                                       \
  }
HONE_OF_ROW_TYPES(HONE_DEFINE)
#undef HONE_DEFINE
#undef HONE_AVX512

#else

bool has_avx512_rows() { return false; }
int64_t avx512_row(int64_t width) { return width; }

#define HONE_DEFINE(T)                                                      \
  void avx512_outputs(const float*, const T*, float*, const SkinnyShape&) { \
    fail_check("a processor with AVX-512", __FILE__, __LINE__, "");         \
  }                                                                         \
  void pack_avx512_rows(const T*, float*, int64_t, int64_t) { fail_check("a processor with AVX-512", __FILE__, __LINE__, ""); }
HONE_OF_ROW_TYPES(HONE_DEFINE)
#undef HONE_DEFINE

#endif

}  // namespace hone::ops::cpu
