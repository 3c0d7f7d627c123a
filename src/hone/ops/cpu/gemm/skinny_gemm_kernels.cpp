#include "hone/ops/cpu/gemm/skinny_gemm_kernels.h"

#include <type_traits>

#include "hone/ops/cpu/gemm/arm/eight_rows.h"
#include "hone/ops/cpu/gemm/dot_accumulate.h"

namespace hone::ops::cpu {
namespace {

// Accumulators kept in registers: rows of x times rows of the weight. Sixteen floats are one register with AVX-512 and four with
// NEON.
#if defined(__aarch64__)
constexpr int64_t kTileRows = 4, kTileOutputs = 3;
#else
constexpr int64_t kTileRows = 4, kTileOutputs = 6;
constexpr int64_t kTallRows = 8;  // with half as many outputs: 16-bit weights are widened half as often
#endif
// Several blocks of rows reuse this much of the weight, which stays in the L2 cache meanwhile.
constexpr int64_t kSharedBytes = int64_t{320} << 10;
constexpr int64_t kLineBytes = 64;

// The data prefetched during computation: the next rows of the weight, line by line.
struct Ahead {
  const char *at, *end;
};
HONE_INLINE void ask(Ahead& ahead) {
  __builtin_prefetch(ahead.at, 0, 2);
  ahead.at = ahead.at + kLineBytes < ahead.end ? ahead.at + kLineBytes : ahead.end;
}

// y[m][n] for `X` rows of x and `W` rows of the weight; calls step(i) on the way. The order of each sum depends only on the
// width, never on X and W.
template <int64_t X, int64_t W, class T, class Step>
HONE_INLINE void tile(const float* x, const T* weight, float* y, const SkinnyShape& shape, Step step) {
  DotAccumulator sums[X][W] = {};
  const int64_t width = shape.width;
  const auto add = [&](int64_t i, auto extent) __attribute__((always_inline)) {
    DotOperand w[W];
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) w[n] = load_factor(weight + n * width + i, extent);
#pragma GCC unroll 8
    for (int64_t m = 0; m < X; ++m) {
      const DotOperand row = load_factor(x + i * X + m * kVectorWidth, FullVector{});
#pragma GCC unroll 8
      for (int64_t n = 0; n < W; ++n) accumulate(sums[m][n], row, w[n]);
    }
  };
  int64_t i = 0;
  for (; i + kVectorWidth <= width; i += kVectorWidth) {
    step(i);
    add(i, FullVector{});
  }
  if (i < width) add(i, VectorTail{width - i});
#pragma GCC unroll 8
  for (int64_t m = 0; m < X; ++m)
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) y[m * shape.y_stride + n] = horizontal_sum(sums[m][n]);
}

// One row of x: bound by memory alone.
#if defined(__aarch64__)

// As few outputs at a time as keep the multipliers busy, so that the weight is read almost sequentially, one cache line per step.
// It is prefetched in that order, shortly before its last row needs it. On a Neoverse-N1, four outputs at a time with separate
// prefetches reached 25 GB/s; this reaches 32 for bfloat16 and 36 for float32.
template <class T>
HONE_INLINE void outputs_of_one(const float* x, const T* weight, float* y, const SkinnyShape& shape) {
  constexpr int64_t kOutputs = sizeof(float) / sizeof(T), kBytesAhead = 1024 / kOutputs / kOutputs;
  static_assert(kOutputs * kVectorWidth * sizeof(T) == kLineBytes);
  int64_t n = 0;
  for (; n + kOutputs <= shape.count; n += kOutputs) {
    const T* rows = weight + n * shape.width;
    const char* ahead = reinterpret_cast<const char*>(rows + (kOutputs - 1) * shape.width) + kBytesAhead;
    tile<1, kOutputs>(
        x, rows, y + n, shape, [&](int64_t) __attribute__((always_inline)) {
          __builtin_prefetch(ahead);
          ahead += kLineBytes;
        });
  }
  for (; n < shape.count; ++n) tile<1, 1>(x, weight + n * shape.width, y + n, shape, [](int64_t) {});
}

#else

// Weight rows are too short for the hardware prefetcher, so the next ones are prefetched at each step.
template <class T>
HONE_INLINE void outputs_of_one(const float* x, const T* weight, float* y, const SkinnyShape& shape) {
  constexpr int64_t kOutputs = 4;
  int64_t n = 0;
  for (; n + kOutputs <= shape.count; n += kOutputs) {
    const T* rows = weight + n * shape.width;
    tile<1, kOutputs>(
        x, rows, y + n, shape, [&](int64_t i) __attribute__((always_inline)) {
#pragma GCC unroll 8
          for (int64_t next = kOutputs; next < 2 * kOutputs; ++next) __builtin_prefetch(rows + next * shape.width + i);
        });
  }
  for (; n < shape.count; ++n) tile<1, 1>(x, weight + n * shape.width, y + n, shape, [](int64_t) {});
}

#endif

template <int64_t X, class T>
HONE_INLINE void outputs_of_block(const float* x, const T* weight, float* y, const SkinnyShape& shape, int64_t count,
                                  Ahead& ahead) {
  const auto step = [&](int64_t) __attribute__((always_inline)) { ask(ahead); };
  constexpr int64_t kOutputs = X > kTileRows ? kTileOutputs / 2 : kTileOutputs;
  int64_t n = 0;
  for (; n + kOutputs <= count; n += kOutputs) tile<X, kOutputs>(x, weight + n * shape.width, y + n, shape, step);
  for (; n < count; ++n) tile<X, 1>(x, weight + n * shape.width, y + n, shape, step);
}

#if defined(__aarch64__)
int64_t whole_eights(int64_t rows) { return rows / kEightRows * kEightRows; }
#else
int64_t whole_eights(int64_t) { return 0; }
#endif

// block<X>(first row) for the rows left after groups of eight: as many as can share, then pairs, then one.
template <class Block>
HONE_INLINE void for_blocks(int64_t rows, Block block) {
  int64_t m = whole_eights(rows);
#if !defined(__aarch64__)
  for (; m + kTallRows <= rows; m += kTallRows) block.template operator()<kTallRows>(m);
#endif
  for (; m + kTileRows <= rows; m += kTileRows) block.template operator()<kTileRows>(m);
  for (; m + 2 <= rows; m += 2) block.template operator()<2>(m);
  if (m < rows) block.template operator()<1>(m);
}

template <class T>
HONE_INLINE void outputs(const float* x, const T* weight, float* y, const SkinnyShape& shape) {
  if (shape.rows == 1) return outputs_of_one(x, weight, y, shape);
#if defined(__aarch64__)
  if (const int64_t rows = whole_eights(shape.rows); rows > 0)
    outputs_of_eights(x, weight, y, SkinnyShape{rows, shape.width, shape.count, shape.y_stride}, packed_row(shape.width));
  if (whole_eights(shape.rows) == shape.rows) return;
#endif
  const int64_t row_bytes = shape.width * static_cast<int64_t>(sizeof(T));
  const int64_t shared = kSharedBytes / row_bytes / kTileOutputs * kTileOutputs, piece = shared > 0 ? shared : kTileOutputs;
  for (int64_t n = 0; n < shape.count; n += piece) {
    const int64_t count = piece < shape.count - n ? piece : shape.count - n, left = shape.count - n - count;
    const T *rows = weight + n * shape.width, *next = rows + count * shape.width;
    Ahead ahead{reinterpret_cast<const char*>(next),
                reinterpret_cast<const char*>(next + (piece < left ? piece : left) * shape.width)};
    for_blocks(
        shape.rows, [&]<int64_t X>(int64_t m) __attribute__((always_inline)) {
          outputs_of_block<X>(x + m * packed_row(shape.width), rows, y + m * shape.y_stride + n, shape, count, ahead);
        });
  }
}

template <class T>
HONE_INLINE void pack_by_blocks(const T* x, float* packed, int64_t rows, int64_t width) {
#if defined(__aarch64__)
  for (int64_t m = 0; m < whole_eights(rows); m += kEightRows, packed += kEightRows * packed_row(width))
    pack_eight_rows(x + m * width, packed, width);
#endif
  for_blocks(
      rows, [&]<int64_t X>(int64_t first) __attribute__((always_inline)) {
        for_each_vector(
            width, [&](int64_t i, auto extent) __attribute__((always_inline)) {
              for (int64_t m = 0; m < X; ++m, packed += kVectorWidth)
                store(packed, load(x + (first + m) * width + i, extent), FullVector{});
            });
      });
}

}  // namespace

int64_t packed_row(int64_t width) { return (width + kVectorWidth - 1) / kVectorWidth * kVectorWidth; }

#define HONE_DEFINE(T)                                                                                           \
  HONE_CPU_KERNEL void small_outputs(const float* packed, const T* weight, float* y, const SkinnyShape& shape) { \
    outputs(packed, weight, y, shape);                                                                           \
  }                                                                                                              \
  HONE_CPU_KERNEL void pack_rows(const T* x, float* packed, int64_t rows, int64_t width) {                       \
    pack_by_blocks(x, packed, rows, width);                                                                      \
  }
HONE_DEFINE(float)
HONE_DEFINE(c10::BFloat16)
HONE_DEFINE(c10::Half)
#undef HONE_DEFINE

#define HONE_DEFINE(T)                                                                                  \
  HONE_CPU_KERNEL void add_bias(float* y, int64_t stride, const T* bias, int64_t rows, int64_t count) { \
    for (int64_t m = 0; m < rows; ++m)                                                                  \
      for_each_vector(                                                                                  \
          count, [&](int64_t i, auto extent) __attribute__((always_inline)) {                           \
            float* to = y + m * stride + i;                                                             \
            store(to, load(to, extent) + load(bias + i, extent), extent);                               \
          });                                                                                           \
  }
HONE_DEFINE(float)
HONE_DEFINE(c10::BFloat16)
HONE_DEFINE(c10::Half)
#undef HONE_DEFINE

#define HONE_DEFINE(T)                                                                                                           \
  HONE_CPU_KERNEL void round_outputs(const float* sums, T* y, int64_t rows, int64_t count, int64_t stride) {                     \
    for (int64_t m = 0; m < rows; ++m)                                                                                           \
      for_each_vector(                                                                                                           \
          count, [&](int64_t i, auto extent)                                                                                     \
                     __attribute__((always_inline)) { store(y + m * stride + i, load(sums + m * count + i, extent), extent); }); \
  }
HONE_DEFINE(c10::BFloat16)
HONE_DEFINE(c10::Half)
#undef HONE_DEFINE

}  // namespace hone::ops::cpu
