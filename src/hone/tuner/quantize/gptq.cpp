#include "hone/tuner/quantize/gptq.h"

#include "hone/base/error.h"

namespace hone::tuner {
namespace {

// The upper Cholesky factor of the inverse: row i tells how later inputs compensate for an error at input i.
Tensor compensation(const Tensor& products, double damping) {
  // Checked here rather than by the factorization: LAPACK implementations either fail or return NaN.
  if (!products.isfinite().all().item<bool>())
    throw UserError(ExitCode::non_finite, "the calibration inputs are not finite", "use other rows, or `torch_dtype` float32");
  auto sums = products.to(at::kDouble);
  if (sums.scalar_type() != at::kDouble) sums = products.cpu().to(at::kDouble);  // the device has no float64
  auto diagonal = sums.diagonal();
  diagonal.masked_fill_(diagonal == 0, 1);  // an input that never occurred: any value will do
  double mean = diagonal.mean().item<double>();
  for (double share = damping; share < 1e3; share *= 10) {
    auto damped = sums + at::eye(sums.size(0), sums.options()) * (share * mean);
    auto [lower, status] = at::linalg_cholesky_ex(damped);
    if (status.item<int>() == 0)
      return at::linalg_cholesky(at::cholesky_inverse(lower), /*upper=*/true).to(at::kFloat).to(products.device());
  }
  throw UserError(ExitCode::non_finite, "the Hessian of the calibration inputs has no Cholesky factor, even after damping",
                  "use other rows, or `torch_dtype` float32");
}

}  // namespace

QuantizedWeight gptq_quantize(const Tensor& weight, const Tensor& products, const GptqConfig& config) {
  constexpr int64_t kColumnsAtOnce = 128;
  at::NoGradGuard no_grad;
  int64_t in = weight.size(1), group = config.grid.inputs_of_group(in);
  HONE_CHECK(in % group == 0, "{} inputs in groups of {}", in, group);
  auto values = weight.to(at::kFloat).clone();
  values.masked_fill_((products.diagonal() == 0).unsqueeze(0), 0);
  auto factor = compensation(products, config.damping);
  QuantizedWeight rounded{at::empty(weight.sizes(), weight.options().dtype(at::kInt)), {}, {}};
  TensorList scales, zeros;
  for (int64_t first = 0; first < in; first += kColumnsAtOnce) {
    int64_t last = std::min(first + kColumnsAtOnce, in);
    TensorList errors;
    for (int64_t i = first; i < last; ++i) {
      if (i % group == 0) {
        auto grid = min_max_qparams(values.narrow(1, i, group), config.grid);
        scales.push_back(grid.scales), zeros.push_back(grid.zeros);
      }
      auto column = values.select(1, i);
      auto codes = quantize_values(column, scales.back(), zeros.back(), config.grid.bits);
      rounded.codes.select(1, i).copy_(codes);
      auto error = (column - (codes - zeros.back()) * scales.back()) / factor[i][i];
      if (i + 1 < last) values.narrow(1, i + 1, last - i - 1) -= at::outer(error, factor[i].narrow(0, i + 1, last - i - 1));
      errors.push_back(error);
    }
    if (last < in)
      values.narrow(1, last, in - last) -=
          at::matmul(at::stack(errors, 1), factor.narrow(0, first, last - first).narrow(1, last, in - last));
  }
  rounded.scales = at::stack(scales, 1);
  rounded.zeros = at::stack(zeros, 1);
  return rounded;
}

}  // namespace hone::tuner
