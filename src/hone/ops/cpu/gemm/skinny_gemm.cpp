#include "hone/ops/cpu/gemm/skinny_gemm.h"

#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/gemm/amx_bf16x6_gemm.h"
#include "hone/ops/cpu/gemm/amx_gemm.h"
#include "hone/ops/cpu/gemm/bf16_mmla_gemm.h"
#include "hone/ops/cpu/gemm/outputs.h"
#include "hone/ops/cpu/gemm/row_kernels.h"
#include "hone/ops/cpu/gemm/skinny_gemm_kernels.h"
#include "hone/ops/linear/matmul.h"

namespace hone::ops::cpu {
namespace {

static_assert(kBatchInvariantRows <= 2 * kAmxRows);  // above this, libtorch's blocked GEMM is faster

bool supports_unit(const Tensor& weight) {
  return weight.scalar_type() != at::kHalf && weight.size(1) % kAmxInputs == 0 && has_amx();
}

SkinnyShape shape_of(const Tensor& x, const Tensor& weight) { return {x.size(0), x.size(1), weight.size(0), weight.size(0)}; }

template <class T>
Tensor multiply_by_amx(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  constexpr bool kInParts = std::is_same_v<T, float>;
  const auto all = shape_of(x, weight);
  auto packed = at::empty({kInParts ? split_size(all.rows, all.width) : x.numel()}, x.options().dtype(at::kBFloat16));
  auto* to = packed.mutable_data_ptr<c10::BFloat16>();
  const auto* weights = weight.const_data_ptr<T>();
  if constexpr (kInParts)
    pack_bf16x3(x.const_data_ptr<T>(), to, all.rows, all.width);
  else
    pack_for_amx(x.const_data_ptr<T>(), to, all.rows, all.width);
  return linear_outputs(all, bias, x.scalar_type(), [&](float* y, int64_t first, const SkinnyShape& shape) {
    amx_outputs(to, weights + first * shape.width, y, shape);
  });
}

Tensor multiply_by_mmla(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const auto all = shape_of(x, weight);
  auto packed = at::empty({mmla_packed_size(all.rows, all.width)}, x.options());
  auto* to = packed.mutable_data_ptr<c10::BFloat16>();
  const auto* weights = weight.const_data_ptr<c10::BFloat16>();
  pack_for_mmla(x.const_data_ptr<c10::BFloat16>(), to, all.rows, all.width);
  return linear_outputs(all, bias, x.scalar_type(), [&](float* y, int64_t first, const SkinnyShape& shape) {
    mmla_outputs(to, weights + first * shape.width, y, shape);
  });
}

template <class T>
Tensor multiply_by_vectors(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const auto all = shape_of(x, weight);
  const auto kernels = row_kernels<T>();
  Tensor packed = at::empty({all.rows * kernels.row_size(all.width)}, x.options().dtype(at::kFloat));
  auto* to = packed.mutable_data_ptr<float>();
  const auto* weights = weight.const_data_ptr<T>();
  kernels.pack(x.const_data_ptr<T>(), to, all.rows, all.width);
  return linear_outputs(all, bias, x.scalar_type(), [&](float* y, int64_t first, const SkinnyShape& shape) {
    kernels.outputs(to, weights + first * shape.width, y, shape);
  });
}

}  // namespace

bool is_skinny(const Tensor& x) { return supports(x) && x.dim() == 2 && x.size(0) > 0 && x.size(0) <= kBatchInvariantRows; }

bool supports_skinny(const Tensor& x, const Tensor& weight) {
  return is_skinny(x) && supports(weight) && x.scalar_type() == weight.scalar_type() && weight.is_contiguous();
}

Tensor skinny_gemm(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  auto rows = x.contiguous();
  if (weight.scalar_type() == at::kBFloat16 && has_bf16_mmla()) return multiply_by_mmla(rows, weight, bias);
  if (supports_unit(weight))
    return weight.scalar_type() == at::kFloat ? multiply_by_amx<float>(rows, weight, bias)
                                              : multiply_by_amx<c10::BFloat16>(rows, weight, bias);
  Tensor y;
  with_type(weight.scalar_type(), [&](auto type) { y = multiply_by_vectors<decltype(type)>(rows, weight, bias); });
  return y;
}

}  // namespace hone::ops::cpu
