#include "hone/ops/cpu/long_matmul.h"

#include "hone/ops/cpu/float_unit.h"
#include "hone/ops/cpu/long_product.h"
#include "hone/ops/cpu/matrix_unit.h"

namespace hone::ops::cpu {
namespace {

constexpr int64_t kManyRows = 256;  // with fewer, cutting the weights costs more than the unit gains

void multiply_slab(const float* x, const float* weight, float* y, const LongShape& shape) {
  const int64_t panels = panels_of(shape.rows), panel_parts = parts_of(kPanel, shape.width);
  auto packed = at::empty({panels * panel_parts}, at::kBFloat16);
  auto* parts = packed.mutable_data_ptr<c10::BFloat16>();
  at::parallel_for(0, panels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p)
      pack_parts(x + p * kPanel * shape.width, parts + p * panel_parts, std::min(kPanel, shape.rows - p * kPanel), shape.width, kPanel / kUnitRows);
  });
  at::parallel_for(0, panels_of(shape.outputs), 1, [&](int64_t begin, int64_t end) {
    auto weights = at::empty({LongScratch::kWeights}, at::kBFloat16), sums = at::empty({panels * LongScratch::kSums}, at::kFloat);
    long_outputs(parts, weight, y, shape, begin, end, {weights.mutable_data_ptr<c10::BFloat16>(), sums.mutable_data_ptr<float>()});
  });
}

}  // namespace

bool serves_long(const Tensor& x, const Tensor& weight) {
  const bool floats = x.is_cpu() && x.scalar_type() == at::kFloat && weight.is_cpu() && weight.scalar_type() == at::kFloat;
  return floats && x.dim() == 2 && x.size(0) >= kManyRows && weight.is_contiguous() && weight.size(1) % kUnitInputs == 0 && !at::GradMode::is_enabled() && has_matrix_unit();
}

Tensor long_matmul(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  auto rows = x.contiguous();
  const int64_t width = x.size(1), outputs = weight.size(0);
  auto y = at::empty({x.size(0), outputs}, x.options());
  for (int64_t first = 0; first < x.size(0); first += kSlabRows)
    multiply_slab(rows.const_data_ptr<float>() + first * width, weight.const_data_ptr<float>(), y.mutable_data_ptr<float>() + first * outputs,
                  {std::min(kSlabRows, x.size(0) - first), width, outputs});
  if (bias.defined()) y.add_(bias);
  return y;
}

}  // namespace hone::ops::cpu
