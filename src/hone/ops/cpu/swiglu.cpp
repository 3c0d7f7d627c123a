#include "hone/ops/cpu/swiglu.h"

#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/lanes.h"

namespace hone::ops::cpu {
namespace {

HONE_INLINE Lane sigmoid(Lane x) { return 1.0f / (1.0f + exp(-x)); }

template <class T>
HONE_INLINE void forward_body(const T* gate, const T* up, T* y, int64_t count) {
  for_lanes(count, HONE_LANES(auto g = load(gate + i, extent); store(y + i, rounded<T>(g * sigmoid(g)) * load(up + i, extent), extent)));
}
template <class T>
HONE_INLINE void backward_body(const T* dy, const T* gate, const T* up, T* dgate, T* dup, int64_t count) {
  for_lanes(count, HONE_LANES(auto g = load(gate + i, extent); auto d = load(dy + i, extent); auto s = sigmoid(g);
                              store(dup + i, d * g * s, extent);
                              store(dgate + i, d * load(up + i, extent) * s * (1.0f + g * (1.0f - s)), extent)));
}

#define HONE_DEFINE(T)                                                                                                        \
  HONE_CPU_KERNEL void forward_span(const T* gate, const T* up, T* y, int64_t count) { forward_body(gate, up, y, count); }    \
  HONE_CPU_KERNEL void backward_span(const T* dy, const T* gate, const T* up, T* dgate, T* dup, int64_t count) {              \
    backward_body(dy, gate, up, dgate, dup, count);                                                                           \
  }
HONE_DEFINE(float)
HONE_DEFINE(c10::BFloat16)
HONE_DEFINE(c10::Half)
#undef HONE_DEFINE

constexpr int64_t kGrain = 16384;

}  // namespace

bool serves_halves(const Tensor& gate, const Tensor& up) {
  return serves(gate) && gate.dim() == 2 && gate.stride(1) == 1 && up.stride(1) == 1;
}

void swiglu(const Tensor& gate, const Tensor& up, Tensor& y) {
  with_type(gate.scalar_type(), [&](auto type) {
    using T = decltype(type);
    auto *g = gate.const_data_ptr<T>(), *u = up.const_data_ptr<T>();
    auto* to = y.mutable_data_ptr<T>();
    if (gate.is_contiguous() && up.is_contiguous()) {
      at::parallel_for(0, gate.numel(), kGrain, [&](int64_t begin, int64_t end) { forward_span(g + begin, u + begin, to + begin, end - begin); });
    } else {
      at::parallel_for(0, gate.size(0), row_grain(gate.size(1)), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
          forward_span(g + row * gate.stride(0), u + row * up.stride(0), to + row * gate.size(1), gate.size(1));
      });
    }
  });
}

void swiglu_backward(const Tensor& dy, const Tensor& gate, const Tensor& up, Tensor& dgate, Tensor& dup) {
  with_type(gate.scalar_type(), [&](auto type) {
    using T = decltype(type);
    auto *d = dy.const_data_ptr<T>(), *g = gate.const_data_ptr<T>(), *u = up.const_data_ptr<T>();
    auto *to_gate = dgate.mutable_data_ptr<T>(), *to_up = dup.mutable_data_ptr<T>();
    at::parallel_for(0, gate.numel(), kGrain, [&](int64_t begin, int64_t end) {
      backward_span(d + begin, g + begin, u + begin, to_gate + begin, to_up + begin, end - begin);
    });
  });
}

}  // namespace hone::ops::cpu
