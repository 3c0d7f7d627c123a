#include "hone/ops/cpu/small_matmul.h"

#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/small_matmul_kernels.h"

namespace hone::ops::cpu {
namespace {

constexpr int64_t kMostRows = 32;  // beyond, libtorch's blocked product is faster

// compute(first, count) over pieces of the outputs, large enough to be worth a thread.
template <class Compute>
void for_outputs(int64_t outputs, int64_t width, Compute compute) {
  const int64_t piece = std::max<int64_t>(8, 65536 / width / 8 * 8);
  at::parallel_for(0, (outputs + piece - 1) / piece, 1, [&](int64_t begin, int64_t end) {
    int64_t first = begin * piece;
    compute(first, std::min(end * piece, outputs) - first);
  });
}

struct Buffers {
  Tensor x, y;  // float32, contiguous
  SmallShape shape(int64_t count) const { return {x.size(0), x.size(1), count, y.size(1)}; }
};

Buffers buffers_for(const Tensor& x, int64_t outputs) {
  auto x32 = x.to(at::kFloat).contiguous();
  return {x32, at::empty({x.size(0), outputs}, x32.options())};
}

Tensor finished(Buffers& buffers, const Tensor& bias, at::ScalarType dtype) {
  if (bias.defined()) buffers.y.add_(bias);
  return buffers.y.to(dtype);
}

}  // namespace

bool is_small(const Tensor& x) { return serves(x) && x.dim() == 2 && x.size(0) > 0 && x.size(0) <= kMostRows; }

bool serves_small(const Tensor& x, const Tensor& weight) {
  return is_small(x) && serves(weight) && x.scalar_type() == weight.scalar_type() && weight.is_contiguous();
}

Tensor small_matmul(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  auto buffers = buffers_for(x, weight.size(0));
  const auto* from = buffers.x.const_data_ptr<float>();
  auto* to = buffers.y.mutable_data_ptr<float>();
  with_type(weight.scalar_type(), [&](auto type) {
    const auto* weights = weight.const_data_ptr<decltype(type)>();
    for_outputs(weight.size(0), weight.size(1),
                [&](int64_t first, int64_t count) { small_outputs(from, weights + first * weight.size(1), to + first, buffers.shape(count)); });
  });
  return finished(buffers, bias, x.scalar_type());
}

Tensor small_matmul_int8(const Tensor& x, const Tensor& codes, const Tensor& scales, const Tensor& bias) {
  auto buffers = buffers_for(x, codes.size(0));
  const auto* from = buffers.x.const_data_ptr<float>();
  const auto* weights = codes.const_data_ptr<uint8_t>();
  const auto* factors = scales.const_data_ptr<float>();
  auto* to = buffers.y.mutable_data_ptr<float>();
  for_outputs(codes.size(0), codes.size(1), [&](int64_t first, int64_t count) {
    small_outputs_int8(from, weights + first * codes.size(1), factors + first, to + first, buffers.shape(count));
  });
  return finished(buffers, bias, x.scalar_type());
}

Tensor small_matmul_int4(const Tensor& x, const Tensor& codes, const Tensor& groups, const Tensor& bias) {
  auto buffers = buffers_for(x, codes.size(0));
  auto sums = buffers.x.view({x.size(0), -1, kInt4Group}).sum(2).contiguous();
  const auto *from = buffers.x.const_data_ptr<float>(), *totals = sums.const_data_ptr<float>();
  const auto* weights = codes.const_data_ptr<uint8_t>();
  const auto* factors = reinterpret_cast<const Int4Group*>(groups.const_data_ptr<float>());
  auto* to = buffers.y.mutable_data_ptr<float>();
  for_outputs(codes.size(0), x.size(1), [&](int64_t first, int64_t count) {
    small_outputs_int4(from, totals, weights + first * codes.size(1), factors + first * sums.size(1), to + first, buffers.shape(count));
  });
  return finished(buffers, bias, x.scalar_type());
}

}  // namespace hone::ops::cpu
