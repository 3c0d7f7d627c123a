#include "hone/ops/cpu/rope.h"

#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/lanes.h"

namespace hone::ops::cpu {
namespace {

template <class T>
HONE_INLINE void rope_body(const T* x, const float* cos, const float* sin, float direction, T* y, int64_t rows, int64_t heads, int64_t half) {
  for (int64_t row = 0; row < rows; ++row, cos += half, sin += half) {
    for (int64_t head = 0; head < heads; ++head, x += 2 * half, y += 2 * half) {
      for_lanes(half, HONE_LANES(auto c = load(cos + i, extent); auto s = load(sin + i, extent) * direction;
                                 auto first = load(x + i, extent); auto second = load(x + half + i, extent);
                                 store(y + i, first * c - second * s, extent); store(y + half + i, second * c + first * s, extent)));
    }
  }
}

#define HONE_DEFINE(T)                                                                                                            \
  HONE_CPU_KERNEL void rope_rows(const T* x, const float* cos, const float* sin, float direction, T* y, int64_t rows, int64_t heads, \
                                 int64_t half) {                                                                                  \
    rope_body(x, cos, sin, direction, y, rows, heads, half);                                                                      \
  }
HONE_DEFINE(float)
HONE_DEFINE(c10::BFloat16)
HONE_DEFINE(c10::Half)
#undef HONE_DEFINE

}  // namespace

void rope(const Tensor& x, const Tensor& cos, const Tensor& sin, float direction, Tensor& y) {
  int64_t rows = x.size(0), width = x.numel() / rows, half = cos.size(1);
  with_type(x.scalar_type(), [&](auto type) {
    using T = decltype(type);
    auto* from = x.const_data_ptr<T>();
    auto* to = y.mutable_data_ptr<T>();
    auto *cosines = cos.const_data_ptr<float>(), *sines = sin.const_data_ptr<float>();
    at::parallel_for(0, rows, row_grain(width), [&](int64_t begin, int64_t end) {
      rope_rows(from + begin * width, cosines + begin * half, sines + begin * half, direction, to + begin * width, end - begin,
                width / (2 * half), half);
    });
  });
}

}  // namespace hone::ops::cpu
