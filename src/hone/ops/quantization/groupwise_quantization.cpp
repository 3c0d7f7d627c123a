#include "hone/ops/quantization/groupwise_quantization.h"

#include <limits>

#include "hone/base/error.h"

namespace hone::ops {
namespace {

constexpr double kNorm = 0.7, kBeta = 10;
constexpr int kRounds = 20;

double largest_code(const GroupwiseConfig& how) { return (1 << how.bits) - 1; }

Tensor codes_between(const Tensor& numbers, const GroupwiseConfig& how) {
  return numbers.round().clamp_(0, largest_code(how)).to(at::kByte);
}

// The proximal operator of the norm |x|^0.7: the outlier part of an error.
Tensor shrunk(const Tensor& errors) {
  auto sizes = errors.abs();
  return (sizes - sizes.pow(kNorm - 1) / kBeta).clamp_min_(0).mul_(errors.sign());
}

// The default solver of the hqq package, in float32.
GroupwiseQuantized solve_half_quadratic(const Tensor& groups, const GroupwiseConfig& how) {
  auto least = groups.amin(how.axis, /*keepdim=*/true), width = groups.amax(how.axis, /*keepdim=*/true) - least;
  auto scales = at::where(width.abs() <= 1e-4, at::ones_like(width), largest_code(how) / width).clamp_max_(2e4);
  auto zeros = -least * scales;
  if (how.bits == 4) zeros.round_();
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    auto codes = codes_between(groups * scales + zeros, how).to(at::kFloat);
    auto errors = groups - (codes - zeros) / scales;
    zeros = (codes - (groups - shrunk(errors)) * scales).mean(how.axis, /*keepdim=*/true);
    const double error = errors.abs().mean().item<double>();
    if (!(error < best)) break;
    best = error;
  }
  return {codes_between(groups * scales + zeros, how), scales.reciprocal(), zeros};
}

// A group of equal weights has zero range: any scale restores them from code 0.
Tensor usable_scales(const Tensor& scales) { return at::where(scales > 0, scales, at::ones_like(scales)); }

GroupwiseQuantized take_extremes(const Tensor& groups, const GroupwiseConfig& how) {
  if (how.bits == 8) {  // symmetric: -128 to 127, stored as 0 to 255
    auto scales = usable_scales(groups.abs().amax(how.axis, /*keepdim=*/true) / 127);
    return {codes_between(groups / scales + 128, how), scales, at::full_like(scales, 128)};
  }
  auto least = groups.amin(how.axis, /*keepdim=*/true);
  auto scales = usable_scales((groups.amax(how.axis, /*keepdim=*/true) - least) / largest_code(how));
  return {codes_between((groups - least) / scales, how), scales, -least / scales};
}

}  // namespace

GroupwiseQuantized grouped_codes(const Tensor& weight, const GroupwiseConfig& how) {
  at::NoGradGuard no_grad;
  if (weight.numel() % how.group != 0)
    throw UserError(ExitCode::usage,
                    fmt::format("a layer of {} weights does not fall into groups of {}", weight.numel(), how.group),
                    "choose another quant_method");
  auto groups = weight.to(at::kFloat).reshape(grouped_shape(how));
  return how.solver == RangeMethod::half_quadratic ? solve_half_quadratic(groups, how) : take_extremes(groups, how);
}

int64_t quanto_group(int bits, int64_t inputs) {
  if (bits == 8 || inputs <= 128) return inputs;
  for (int64_t group = 128; group >= 32; group -= 32)
    if (inputs % group == 0) return group;
  return inputs;
}

std::vector<int64_t> grouped_shape(const GroupwiseConfig& how) {
  return how.axis == 1 ? std::vector<int64_t>{-1, how.group} : std::vector<int64_t>{how.group, -1};
}

}  // namespace hone::ops
