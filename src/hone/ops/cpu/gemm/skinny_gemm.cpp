#include "hone/ops/cpu/gemm/skinny_gemm.h"

#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/gemm/amx_bf16x6_gemm.h"
#include "hone/ops/cpu/gemm/amx_gemm.h"
#include "hone/ops/cpu/gemm/bf16_mmla_gemm.h"
#include "hone/ops/cpu/gemm/skinny_gemm_kernels.h"
#include "hone/ops/cpu/outputs.h"
#include "hone/ops/linear/matmul.h"

namespace hone::ops::cpu {
namespace {

static_assert(kBatchInvariantRows <= 2 * kAmxRows);  // beyond, libtorch's blocked product is faster

bool serves_unit(const Tensor& weight) {
  return weight.scalar_type() != at::kHalf && weight.size(1) % kAmxInputs == 0 && has_amx();
}

template <class T>
void multiply_by_amx(const Tensor& x, const Tensor& weight, float* y) {
  constexpr bool kInParts = std::is_same_v<T, float>;
  const int64_t rows = x.size(0), width = x.size(1), outputs = weight.size(0);
  auto packed = at::empty({kInParts ? split_size(rows, width) : rows * width}, x.options().dtype(at::kBFloat16));
  auto* to = packed.mutable_data_ptr<c10::BFloat16>();
  const auto* weights = weight.const_data_ptr<T>();
  if constexpr (kInParts)
    pack_bf16x3(x.const_data_ptr<T>(), to, rows, width);
  else
    pack_for_amx(x.const_data_ptr<T>(), to, rows, width);
  for_outputs(outputs, width, [&](int64_t first, int64_t count) {
    amx_outputs(to, weights + first * width, y + first, {rows, width, count, outputs});
  });
}

void multiply_by_mmla(const Tensor& x, const Tensor& weight, float* y) {
  const int64_t rows = x.size(0), width = x.size(1), outputs = weight.size(0);
  auto packed = at::empty({mmla_packed_size(rows, width)}, x.options());
  auto* to = packed.mutable_data_ptr<c10::BFloat16>();
  const auto* weights = weight.const_data_ptr<c10::BFloat16>();
  pack_for_mmla(x.const_data_ptr<c10::BFloat16>(), to, rows, width);
  for_outputs(outputs, width, [&](int64_t first, int64_t count) {
    mmla_outputs(to, weights + first * width, y + first, {rows, width, count, outputs});
  });
}

template <class T>
void multiply_by_vectors(const Tensor& x, const Tensor& weight, float* y) {
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

bool is_skinny(const Tensor& x) { return supports(x) && x.dim() == 2 && x.size(0) > 0 && x.size(0) <= kBatchInvariantRows; }

bool supports_skinny(const Tensor& x, const Tensor& weight) {
  return is_skinny(x) && supports(weight) && x.scalar_type() == weight.scalar_type() && weight.is_contiguous();
}

Tensor skinny_gemm(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  auto rows = x.contiguous();
  auto y = at::empty({x.size(0), weight.size(0)}, x.options().dtype(at::kFloat));
  auto* to = y.mutable_data_ptr<float>();
  if (weight.scalar_type() == at::kBFloat16 && has_bf16_mmla())
    multiply_by_mmla(rows, weight, to);
  else if (!serves_unit(weight))
    with_type(weight.scalar_type(), [&](auto type) { multiply_by_vectors<decltype(type)>(rows, weight, to); });
  else if (weight.scalar_type() == at::kFloat)
    multiply_by_amx<float>(rows, weight, to);
  else
    multiply_by_amx<c10::BFloat16>(rows, weight, to);
  if (bias.defined()) y.add_(bias);
  return y.to(x.scalar_type());
}

}  // namespace hone::ops::cpu
