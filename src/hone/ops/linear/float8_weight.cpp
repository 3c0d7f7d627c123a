#include "hone/ops/linear/float8_weight.h"

#include <map>
#include <mutex>

#include "hone/ops/cuda/float8.h"
#include "hone/ops/linear/matmul.h"

namespace hone::ops {
namespace {

bool multiplies_float8(at::Device device) {
  try {
    const auto options = at::TensorOptions(at::kFloat).device(device);
    auto matrix = at::ones({16, 16}, options).to(at::kFloat8_e4m3fn);
    at::_scaled_mm(matrix, matrix.t(), at::ones({16, 1}, options), at::ones({1, 16}, options), std::nullopt, std::nullopt,
                   at::kBFloat16, /*use_fast_accum=*/true);
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

bool takes_rows(const Tensor& x, const Float8Weight& float8) { return float8.defined() && cuda::supports_float8_rows(x); }

Tensor scaled_product(const Tensor& x, const Tensor& by_columns, const Tensor& scales, const Tensor& bias) {
  constexpr int64_t kTile = 16;  // cuBLAS requires multiples of it
  const int64_t missing = (kTile - x.size(0) % kTile) % kTile;
  const auto rows = cuda::float8_rows(missing ? at::constant_pad_nd(x, {0, 0, 0, missing}) : x);
  auto y = at::_scaled_mm(rows.values, by_columns.t(), rows.scales, scales, std::nullopt, std::nullopt, x.scalar_type(),
                          /*use_fast_accum=*/true);
  if (missing) y = y.narrow(0, 0, x.size(0));
  return bias.defined() ? y.add_(bias) : y;
}

}  // namespace

bool has_float8_products(at::Device device) {
  static std::mutex mutex;
  static std::map<int, bool> found;
  if (!device.is_cuda()) return false;
  std::lock_guard lock(mutex);
  if (!found.contains(device.index())) found[device.index()] = multiplies_float8(device);
  return found[device.index()];
}

bool supports_float8(const Tensor& like, int64_t outputs) {
  constexpr int64_t kTile = 16;
  return like.scalar_type() == at::kBFloat16 && like.size(1) % kTile == 0 && outputs % kTile == 0 &&
         std::max(like.size(1), outputs) <= cuda::kWidestFloat8 && has_float8_products(like.device()) &&
         cuda::supports_float8_rows(like.detach().narrow(0, 0, 1));
}

Float8Weight float8_weight(const Tensor& weight) {
  at::NoGradGuard no_grad;
  const auto forward = cuda::float8_rows(weight.detach()), backward = cuda::float8_rows(weight.detach().t().contiguous());
  return {forward.values, forward.scales.t(), backward.values, backward.scales.t()};
}

Float8Weight float8_weight_forward(const Tensor& weight) {
  at::NoGradGuard no_grad;
  const auto forward = cuda::float8_rows(weight.detach());
  return {forward.values, forward.scales.t(), {}, {}};
}

Float8Weight float8_slice(const Float8Weight& whole, int64_t begin, int64_t outputs) {
  return {whole.by_outputs.narrow(0, begin, outputs), whole.output_scales.narrow(1, begin, outputs),
          whole.by_inputs.narrow(1, begin, outputs), whole.input_scales};
}

Tensor base_product(const Tensor& x, const Tensor& weight, const Float8Weight& float8, const Tensor& bias) {
  return takes_rows(x, float8) ? scaled_product(x, float8.by_outputs, float8.output_scales, bias) : matmul_nt(x, weight, bias);
}

Tensor base_gradient(const Tensor& dy, const Tensor& weight, const Float8Weight& float8) {
  return takes_rows(dy, float8) ? scaled_product(dy, float8.by_inputs, float8.input_scales, {}) : matmul_nn(dy, weight);
}

}  // namespace hone::ops
