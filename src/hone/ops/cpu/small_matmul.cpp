#include "hone/ops/cpu/small_matmul.h"

#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/lanes.h"

namespace hone::ops::cpu {
namespace {

constexpr int64_t kMostRows = 32;  // beyond, libtorch's blocked product is faster
// Sums kept in registers at a time: rows of x times rows of the weight. A lane is one register with AVX-512 and four with NEON.
#if defined(__aarch64__)
constexpr int64_t kTileX = 2, kTileW = 2;
#else
constexpr int64_t kTileX = 6, kTileW = 4;
#endif

// y[m][n] for `X` rows of x and `W` rows of the weight. The order of each sum depends on the width alone.
template <int64_t X, int64_t W, class T>
HONE_INLINE void tile(const float* x, const T* weight, int64_t width, float* y, int64_t y_stride) {
  Lane sums[X][W] = {};
  int64_t i = 0;
  for (; i + kLane <= width; i += kLane) {
    Lane w[W];
    for (int64_t n = 0; n < W; ++n) w[n] = load(weight + n * width + i, Whole{});
    for (int64_t m = 0; m < X; ++m) {
      Lane row = load(x + m * width + i, Whole{});
      for (int64_t n = 0; n < W; ++n) sums[m][n] += row * w[n];
    }
  }
  if (i < width) {
    Part rest{width - i};
    for (int64_t n = 0; n < W; ++n) {
      Lane w = load(weight + n * width + i, rest);
      for (int64_t m = 0; m < X; ++m) sums[m][n] += load(x + m * width + i, rest) * w;
    }
  }
  for (int64_t m = 0; m < X; ++m)
    for (int64_t n = 0; n < W; ++n) y[m * y_stride + n] = sum(sums[m][n]);
}

template <int64_t W, class T>
HONE_INLINE void all_rows(const float* x, int64_t rows, const T* weight, int64_t width, float* y, int64_t y_stride) {
  int64_t m = 0;
  for (; m + kTileX <= rows; m += kTileX) tile<kTileX, W>(x + m * width, weight, width, y + m * y_stride, y_stride);
  for (; m + 2 <= rows; m += 2) tile<2, W>(x + m * width, weight, width, y + m * y_stride, y_stride);
  if (m < rows) tile<1, W>(x + m * width, weight, width, y + m * y_stride, y_stride);
}

template <class T>
HONE_INLINE void outputs_body(const float* x, int64_t rows, const T* weight, int64_t width, int64_t count, float* y, int64_t y_stride) {
  int64_t n = 0;
  for (; n + kTileW <= count; n += kTileW) all_rows<kTileW>(x, rows, weight + n * width, width, y + n, y_stride);
  for (; n < count; ++n) all_rows<1>(x, rows, weight + n * width, width, y + n, y_stride);
}

// `count` outputs of every row.
#define HONE_DEFINE(T)                                                                                                          \
  HONE_CPU_KERNEL void outputs(const float* x, int64_t rows, const T* weight, int64_t width, int64_t count, float* y, int64_t y_stride) { \
    outputs_body(x, rows, weight, width, count, y, y_stride);                                                                   \
  }
HONE_DEFINE(float)
HONE_DEFINE(c10::BFloat16)
HONE_DEFINE(c10::Half)
#undef HONE_DEFINE

}  // namespace

bool serves_small(const Tensor& x, const Tensor& weight) {
  return serves(x) && serves(weight) && x.scalar_type() == weight.scalar_type() && x.size(0) > 0 && x.size(0) <= kMostRows && weight.is_contiguous();
}

Tensor small_matmul(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  int64_t rows = x.size(0), width = x.size(1), outputs_count = weight.size(0);
  auto x32 = x.to(at::kFloat).contiguous();
  auto y = at::empty({rows, outputs_count}, x32.options());
  const auto* from = x32.const_data_ptr<float>();
  auto* to = y.mutable_data_ptr<float>();
  with_type(weight.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const auto* weights = weight.const_data_ptr<T>();
    int64_t grain = std::max<int64_t>(kTileW, 65536 / width / kTileW * kTileW);
    at::parallel_for(0, (outputs_count + grain - 1) / grain, 1, [&](int64_t begin, int64_t end) {
      int64_t first = begin * grain, last = std::min(end * grain, outputs_count);
      outputs(from, rows, weights + first * width, width, last - first, to + first, outputs_count);
    });
  });
  if (bias.defined()) y.add_(bias);
  return y.to(x.scalar_type());
}

}  // namespace hone::ops::cpu
