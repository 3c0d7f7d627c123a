#include "hone/ops/cpu/small_matmul.h"

#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/outputs.h"
#include "hone/ops/cpu/small_matmul_kernels.h"

namespace hone::ops::cpu {
namespace {

constexpr int64_t kMostRows = 32;  // beyond, libtorch's blocked product is faster

}  // namespace

bool is_small(const Tensor& x) { return serves(x) && x.dim() == 2 && x.size(0) > 0 && x.size(0) <= kMostRows; }

bool serves_small(const Tensor& x, const Tensor& weight) {
  return is_small(x) && serves(weight) && x.scalar_type() == weight.scalar_type() && weight.is_contiguous();
}

Tensor small_matmul(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  auto x32 = x.to(at::kFloat).contiguous();
  auto y = at::empty({x.size(0), weight.size(0)}, x32.options());
  const auto* from = x32.const_data_ptr<float>();
  auto* to = y.mutable_data_ptr<float>();
  with_type(weight.scalar_type(), [&](auto type) {
    const auto* weights = weight.const_data_ptr<decltype(type)>();
    for_outputs(weight.size(0), weight.size(1), [&](int64_t first, int64_t count) {
      small_outputs(from, weights + first * weight.size(1), to + first, {x.size(0), weight.size(1), count, weight.size(0)});
    });
  });
  if (bias.defined()) y.add_(bias);
  return y.to(x.scalar_type());
}

}  // namespace hone::ops::cpu
