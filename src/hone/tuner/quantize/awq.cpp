#include "hone/tuner/quantize/awq.h"

#include <limits>

#include "hone/base/error.h"
#include "hone/model/decoder.h"

namespace hone::tuner {
namespace {

constexpr int kRatios = 20;     // exponents of the input magnitudes to try, from 0 to 1
constexpr int kClipSteps = 10;  // clipping ranges to try, from full to half
constexpr double kClipStep = 0.05;

void divide_rows(model::Linear& giver, const Tensor& scales) {
  giver.weight = (giver.weight.to(at::kFloat) / scales.unsqueeze(1)).to(giver.weight.scalar_type());
  if (giver.bias.defined()) giver.bias = (giver.bias.to(at::kFloat) / scales).to(giver.bias.scalar_type());
}

// The output error caused by rounding, summed over the calibration inputs.
double output_error(const Tensor& change, const Tensor& products) {
  return (at::matmul(change, products) * change).sum().item<double>();
}

// The magnitude of a layer's weights relative to their group's maximum, averaged over the outputs.
Tensor weight_sizes(const std::vector<model::Linear*>& readers, const GroupQuantConfig& config) {
  TensorList all;
  for (const auto* reader : readers) {
    auto weight = reader->weight.to(at::kFloat).abs();
    auto grouped = weight.view({weight.size(0), -1, config.inputs_of_group(weight.size(1))});
    all.push_back((grouped / grouped.amax(2, /*keepdim=*/true).clamp_min(1e-6)).view(weight.sizes()));
  }
  return at::cat(all).mean(0);
}

double rounding_error(const std::vector<model::Linear*>& readers, const Tensor& products, const Tensor& scales,
                      const GroupQuantConfig& config) {
  double error = 0;
  for (const auto* reader : readers) {
    auto weight = reader->weight.to(at::kFloat);
    error += output_error(round_to_nearest(weight * scales, config).restored() / scales - weight, products);
  }
  return error;
}

Tensor best_scales(const AwqScaleGroup& input, const CalibrationStats& seen, const GroupQuantConfig& config) {
  auto inputs = (seen.abs_sums / static_cast<double>(seen.tokens)).clamp_min(1e-8),
       weights = weight_sizes(input.readers, config).clamp_min(1e-4);
  Tensor best = at::ones_like(inputs);
  double least = rounding_error(input.readers, seen.hessian, best, config);
  for (int i = 1; i < kRatios; ++i) {
    double ratio = static_cast<double>(i) / kRatios;
    auto scales = (inputs.pow(ratio) / weights.pow(1 - ratio)).clamp_min(1e-4);
    scales = scales / (scales.max() * scales.min()).sqrt();
    double error = rounding_error(input.readers, seen.hessian, scales, config);
    if (error < least) least = error, best = scales;
  }
  return best;
}

}  // namespace

std::vector<AwqScaleGroup> scaled_inputs(model::Block& block) {
  auto& a = block.attention;
  HONE_CHECK(block.mlp && !block.moe, "blocks with experts are not calibrated");
  auto& mlp = *block.mlp;
  std::vector<AwqScaleGroup> inputs;
  inputs.push_back({{&a.q, &a.k, &a.v}, [&](const Tensor& scales) { block.input_norm.divide(scales); }});
  // Grouped value heads have no separate channels to divide.
  if (a.v.weight.size(0) == a.o.weight.size(1))
    inputs.push_back({{&a.o}, [&](const Tensor& scales) { divide_rows(a.v, scales); }});
  inputs.push_back({{&mlp.gate, &mlp.up}, [&](const Tensor& scales) { block.pre_mlp_norm.divide(scales); }});
  inputs.push_back({{&mlp.down}, [&](const Tensor& scales) { divide_rows(mlp.up, scales); }});
  return inputs;
}

std::map<const model::Linear*, CalibrationStats> apply_awq_scales(model::Block& block,
                                                                  const std::map<const model::Linear*, CalibrationStats>& seen,
                                                                  const GroupQuantConfig& config) {
  at::NoGradGuard no_grad;
  auto after = seen;
  for (const auto& input : scaled_inputs(block)) {
    auto scales = best_scales(input, seen.at(input.readers.front()), config);
    input.undo(scales);
    for (auto* reader : input.readers) {
      reader->weight = (reader->weight.to(at::kFloat) * scales).to(reader->weight.scalar_type());
      auto& own = after.at(reader);
      own.hessian = own.hessian / scales.unsqueeze(0) / scales.unsqueeze(1);
      own.abs_sums = own.abs_sums / scales;
    }
  }
  return after;
}

QuantizedWeight quantize_clipped(const Tensor& weight, const CalibrationStats& seen, const GroupQuantConfig& config) {
  at::NoGradGuard no_grad;
  int64_t out = weight.size(0), in = weight.size(1), group = config.inputs_of_group(in), groups = in / group;
  auto grouped = weight.to(at::kFloat).view({out, groups, group});
  TensorList own_products;  // per group
  for (int64_t g = 0; g < groups; ++g)
    own_products.push_back(seen.hessian.narrow(0, g * group, group).narrow(1, g * group, group));
  auto products = at::stack(own_products);
  Tensor least = at::full({out, groups}, std::numeric_limits<float>::infinity(), grouped.options()), codes, scales, zeros;
  for (int cut = 0; cut <= kClipSteps; ++cut) {
    auto grid = min_max_qparams(grouped, config, 1 - kClipStep * cut);
    auto now = quantize_values(grouped, grid.scales.unsqueeze(2), grid.zeros.unsqueeze(2), config.bits);
    auto change = (now - grid.zeros.unsqueeze(2)) * grid.scales.unsqueeze(2) - grouped;
    auto error = (at::matmul(change.transpose(0, 1), products).transpose(0, 1) * change).sum(2);
    auto better = error < least;
    least = at::where(better, error, least);
    codes = codes.defined() ? at::where(better.unsqueeze(2), now, codes) : now;
    scales = scales.defined() ? at::where(better, grid.scales, scales) : grid.scales;
    zeros = zeros.defined() ? at::where(better, grid.zeros, zeros) : grid.zeros;
  }
  return {codes.to(at::kInt).view({out, in}), scales, zeros};
}

}  // namespace hone::tuner
