#include "hone/ops/cpu/small_matmul.h"

#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/float_unit.h"
#include "hone/ops/cpu/matrix_unit.h"
#include "hone/ops/cpu/outputs.h"
#include "hone/ops/cpu/small_matmul_kernels.h"
#include "hone/ops/matmul.h"

namespace hone::ops::cpu {
namespace {

static_assert(kFewRows <= 2 * kUnitRows);  // beyond, libtorch's blocked product is faster

bool serves_unit(const Tensor& weight) {
  return weight.scalar_type() != at::kHalf && weight.size(1) % kUnitInputs == 0 && has_matrix_unit();
}

template <class T>
void multiply_by_unit(const Tensor& x, const Tensor& weight, float* y) {
  constexpr bool kInParts = std::is_same_v<T, float>;
  const int64_t rows = x.size(0), width = x.size(1), outputs = weight.size(0);
  auto packed = at::empty({kInParts ? parts_of(rows, width) : rows * width}, x.options().dtype(at::kBFloat16));
  auto* to = packed.mutable_data_ptr<c10::BFloat16>();
  const auto* weights = weight.const_data_ptr<T>();
  if constexpr (kInParts) pack_parts(x.const_data_ptr<T>(), to, rows, width);
  else pack_for_unit(x.const_data_ptr<T>(), to, rows, width);
  for_outputs(outputs, width, [&](int64_t first, int64_t count) {
    unit_outputs(to, weights + first * width, y + first, {rows, width, count, outputs});
  });
}

template <class T>
void multiply_by_lanes(const Tensor& x, const Tensor& weight, float* y) {
  const int64_t rows = x.size(0), width = x.size(1), outputs = weight.size(0);
  auto packed = at::empty({rows * packed_row(width)}, x.options().dtype(at::kFloat));
  const auto* from = packed.const_data_ptr<float>();
  const auto* weights = weight.const_data_ptr<T>();
  pack_rows(x.const_data_ptr<T>(), packed.mutable_data_ptr<float>(), rows, width);
  for_outputs(outputs, width, [&](int64_t first, int64_t count) {
    small_outputs(from, weights + first * width, y + first, {rows, width, count, outputs});
  });
}

}  // namespace

bool is_small(const Tensor& x) { return serves(x) && x.dim() == 2 && x.size(0) > 0 && x.size(0) <= kFewRows; }

bool serves_small(const Tensor& x, const Tensor& weight) {
  return is_small(x) && serves(weight) && x.scalar_type() == weight.scalar_type() && weight.is_contiguous();
}

Tensor small_matmul(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  auto rows = x.contiguous();
  auto y = at::empty({x.size(0), weight.size(0)}, x.options().dtype(at::kFloat));
  auto* to = y.mutable_data_ptr<float>();
  if (!serves_unit(weight)) with_type(weight.scalar_type(), [&](auto type) { multiply_by_lanes<decltype(type)>(rows, weight, to); });
  else if (weight.scalar_type() == at::kFloat) multiply_by_unit<float>(rows, weight, to);
  else multiply_by_unit<c10::BFloat16>(rows, weight, to);
  if (bias.defined()) y.add_(bias);
  return y.to(x.scalar_type());
}

}  // namespace hone::ops::cpu
