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
constexpr int64_t kAhead = 1024;  // bytes: what is asked of memory while the present lanes are computed

using LaneByte = uint8_t __attribute__((vector_size(16)));

// As sum(), in the same order, but without a way through memory: there is one of these for every output.
HONE_INLINE float folded(Lane lane) {
  using Eight = float __attribute__((vector_size(32)));
  using Four = float __attribute__((vector_size(16)));
  const Eight eight = __builtin_shufflevector(lane, lane, 0, 1, 2, 3, 4, 5, 6, 7) + __builtin_shufflevector(lane, lane, 8, 9, 10, 11, 12, 13, 14, 15);
  const Four four = __builtin_shufflevector(eight, eight, 0, 1, 2, 3) + __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
  return (four[0] + four[2]) + (four[1] + four[3]);
}

// In two steps: GCC takes a vector of bytes apart when it is to become four times as wide at once.
HONE_INLINE LaneInt widen_bytes(LaneByte bytes) { return __builtin_convertvector(__builtin_convertvector(bytes, LaneShort), LaneInt); }

HONE_INLINE Lane load_weight(const uint8_t* from) {
  LaneByte bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  return __builtin_convertvector(widen_bytes(bytes) - kInt8Zero, Lane);
}
template <class T>
HONE_INLINE Lane load_weight(const T* from) {
  return load(from, Whole{});
}
HONE_INLINE Lane load_rest(const uint8_t* from, Part rest) {
  Lane lane{};
  for (int64_t i = 0; i < rest.count; ++i) lane[i] = static_cast<float>(from[i] - kInt8Zero);
  return lane;
}
template <class T>
HONE_INLINE Lane load_rest(const T* from, Part rest) {
  return load(from, rest);
}

// y[m][n] for `X` rows of x and `W` rows of the weight. The order of each sum depends on the width alone, never on X and W.
template <int64_t X, int64_t W, class T>
HONE_INLINE void tile(const float* x, const T* weight, float* y, const SmallShape& shape) {
  Lane sums[X][W] = {};
  const int64_t width = shape.width;
  int64_t i = 0;
  for (; i + kLane <= width; i += kLane) {
    Lane w[W];
#pragma GCC unroll 8
    for (int64_t n = 0; n < W; ++n) {
      __builtin_prefetch(reinterpret_cast<const char*>(weight + n * width + i) + kAhead);
      w[n] = load_weight(weight + n * width + i);
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
      const Lane w = load_rest(weight + n * width + i, rest);
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

// One output of X rows: each group's products are scaled as a lane, its lowest value times the sum of x is added at the end.
template <int64_t X>
HONE_INLINE void int4_rows(const float* x, const float* x_sums, const uint8_t* codes, const Int4Group* groups, float* y, const SmallShape& shape) {
  const int64_t count = shape.width / kInt4Group;
  Lane sums[X] = {};
  float lowest[X] = {};
  for (int64_t g = 0; g < count; ++g) {
    LaneByte bytes;
    std::memcpy(&bytes, codes + g * (kInt4Group / 2), sizeof bytes);
    __builtin_prefetch(codes + g * (kInt4Group / 2) + kAhead);
    const Lane low = __builtin_convertvector(widen_bytes(bytes & 15), Lane), high = __builtin_convertvector(widen_bytes(bytes >> 4), Lane);
    const float scale = groups[g].scale;
#pragma GCC unroll 8
    for (int64_t m = 0; m < X; ++m) {
      const float* row = x + m * shape.width + g * kInt4Group;
      sums[m] += (load(row, Whole{}) * low + load(row + kLane, Whole{}) * high) * scale;
      lowest[m] += groups[g].lowest * x_sums[m * count + g];
    }
  }
#pragma GCC unroll 8
  for (int64_t m = 0; m < X; ++m) y[m * shape.y_stride] = folded(sums[m]) + lowest[m];
}

HONE_INLINE void int4_body(const float* x, const float* x_sums, const uint8_t* codes, const Int4Group* groups, float* y, const SmallShape& shape) {
  const int64_t count = shape.width / kInt4Group;
  for (int64_t n = 0; n < shape.count; ++n, codes += shape.width / 2, groups += count) {
    int64_t m = 0;
    for (; m + 4 <= shape.rows; m += 4) int4_rows<4>(x + m * shape.width, x_sums + m * count, codes, groups, y + m * shape.y_stride + n, shape);
    for (; m < shape.rows; ++m) int4_rows<1>(x + m * shape.width, x_sums + m * count, codes, groups, y + m * shape.y_stride + n, shape);
  }
}

}  // namespace

#define HONE_DEFINE(T)                                                                                                        \
  HONE_CPU_KERNEL void small_outputs(const float* x, const T* weight, float* y, const SmallShape& shape) { outputs(x, weight, y, shape); }
HONE_DEFINE(float)
HONE_DEFINE(c10::BFloat16)
HONE_DEFINE(c10::Half)
#undef HONE_DEFINE

HONE_CPU_KERNEL void small_outputs_int8(const float* x, const uint8_t* codes, const float* scales, float* y, const SmallShape& shape) {
  outputs(x, codes, y, shape);
  for (int64_t m = 0; m < shape.rows; ++m)
    for (int64_t n = 0; n < shape.count; ++n) y[m * shape.y_stride + n] *= scales[n];
}

HONE_CPU_KERNEL void small_outputs_int4(const float* x, const float* x_sums, const uint8_t* codes, const Int4Group* groups, float* y, const SmallShape& shape) {
  int4_body(x, x_sums, codes, groups, y, shape);
}

}  // namespace hone::ops::cpu
