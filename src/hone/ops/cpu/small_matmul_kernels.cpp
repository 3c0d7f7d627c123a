#include "hone/ops/cpu/small_matmul_kernels.h"

#include "hone/ops/cpu/lanes.h"

namespace hone::ops::cpu {
namespace {

// Sums kept in registers at a time: rows of x times rows of the weight. A lane is one register with AVX-512 and four with NEON.
#if defined(__aarch64__)
constexpr int64_t kTileX = 2, kTileW = 2;
#else
constexpr int64_t kTileX = 6, kTileW = 4;
#endif

// y[m][n] for `X` rows of x and `W` rows of the weight. The order of each sum depends on the width alone, never on X and W. Rows are too
// short for the processor to see where the reading goes, so the next W rows are asked of memory on the way.
template <int64_t X, int64_t W, class T>
HONE_INLINE void tile(const float* x, const T* weight, float* y, const SmallShape& shape) {
  Lane sums[X][W] = {};
  const int64_t width = shape.width;
  int64_t i = 0;
  for (; i + kLane <= width; i += kLane) {
    Lane w[W];
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) {
      __builtin_prefetch(weight + (n + W) * width + i);
      w[n] = load(weight + n * width + i, Whole{});
    }
#pragma GCC unroll 8
    for (int64_t m = 0; m < X; ++m) {
      const Lane row = load(x + m * width + i, Whole{});
#pragma GCC unroll 8
      for (int64_t n = 0; n < W; ++n) sums[m][n] += row * w[n];
    }
  }
  if (i < width) {
    const Part rest{width - i};
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) {
      const Lane w = load(weight + n * width + i, rest);
#pragma GCC unroll 8
      for (int64_t m = 0; m < X; ++m) sums[m][n] += load(x + m * width + i, rest) * w;
    }
  }
#pragma GCC unroll 8
  for (int64_t m = 0; m < X; ++m)
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) y[m * shape.y_stride + n] = folded(sums[m][n]);
}

template <int64_t W, class T>
HONE_INLINE void all_rows(const float* x, const T* weight, float* y, const SmallShape& shape) {
  int64_t m = 0;
  for (; m + kTileX <= shape.rows; m += kTileX) tile<kTileX, W>(x + m * shape.width, weight, y + m * shape.y_stride, shape);
  for (; m + 2 <= shape.rows; m += 2) tile<2, W>(x + m * shape.width, weight, y + m * shape.y_stride, shape);
  if (m < shape.rows) tile<1, W>(x + m * shape.width, weight, y + m * shape.y_stride, shape);
}

template <class T>
HONE_INLINE void outputs(const float* x, const T* weight, float* y, const SmallShape& shape) {
  int64_t n = 0;
  for (; n + kTileW <= shape.count; n += kTileW) all_rows<kTileW>(x, weight + n * shape.width, y + n, shape);
  for (; n < shape.count; ++n) all_rows<1>(x, weight + n * shape.width, y + n, shape);
}

}  // namespace

#define HONE_DEFINE(T)                                                                                                        \
  HONE_CPU_KERNEL void small_outputs(const float* x, const T* weight, float* y, const SmallShape& shape) { outputs(x, weight, y, shape); }
HONE_DEFINE(float)
HONE_DEFINE(c10::BFloat16)
HONE_DEFINE(c10::Half)
#undef HONE_DEFINE

}  // namespace hone::ops::cpu
