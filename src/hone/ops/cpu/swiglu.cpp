#include "hone/ops/cpu/swiglu.h"

#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/parallel.h"
#include "hone/ops/cpu/vector/kernels.h"

namespace hone::ops::cpu {
namespace {

constexpr int64_t kGrain = 2048;  // minimum elements per thread, about ten microseconds

}  // namespace

bool supports_halves(const Tensor& gate, const Tensor& up) {
  return supports(gate) && gate.dim() == 2 && gate.stride(1) == 1 && up.stride(1) == 1;
}

void swiglu(const Tensor& gate, const Tensor& up, Tensor& y) {
  with_type(gate.scalar_type(), [&](auto type) {
    using T = decltype(type);
    auto *g = gate.const_data_ptr<T>(), *u = up.const_data_ptr<T>();
    auto* to = y.mutable_data_ptr<T>();
    if (gate.is_contiguous() && up.is_contiguous()) {
      parallel_pieces(gate.numel(), kGrain,
                      [&](int64_t begin, int64_t end) { swiglu_span(g + begin, u + begin, to + begin, end - begin); });
    } else {
      parallel_pieces(gate.size(0), row_grain(gate.size(1)), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
          swiglu_span(g + row * gate.stride(0), u + row * up.stride(0), to + row * gate.size(1), gate.size(1));
      });
    }
  });
}

void swiglu_halves(const Tensor& both, Tensor& y) {
  const int64_t width = y.size(1), pieces = std::max<int64_t>(1, width / kGrain), piece = (width + pieces - 1) / pieces;
  with_type(both.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const auto* from = both.const_data_ptr<T>();
    auto* to = y.mutable_data_ptr<T>();
    parallel_pieces(y.size(0) * pieces, std::max<int64_t>(1, kGrain / piece), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / pieces, first = i % pieces * piece;
        const auto* gate = from + row * 2 * width + first;
        swiglu_span(gate, gate + width, to + row * width + first, std::min(piece, width - first));
      }
    });
  });
}

void swiglu_backward(const Tensor& dy, const Tensor& gate, const Tensor& up, Tensor& dgate, Tensor& dup) {
  with_type(gate.scalar_type(), [&](auto type) {
    using T = decltype(type);
    auto *d = dy.const_data_ptr<T>(), *g = gate.const_data_ptr<T>(), *u = up.const_data_ptr<T>();
    auto *to_gate = dgate.mutable_data_ptr<T>(), *to_up = dup.mutable_data_ptr<T>();
    parallel_pieces(gate.numel(), kGrain, [&](int64_t begin, int64_t end) {
      swiglu_backward_span(d + begin, g + begin, u + begin, to_gate + begin, to_up + begin, end - begin);
    });
  });
}

}  // namespace hone::ops::cpu
