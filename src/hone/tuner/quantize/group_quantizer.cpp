#include "hone/tuner/quantize/group_quantizer.h"

#include "hone/base/error.h"

namespace hone::tuner {

Tensor QuantizedWeight::restored() const {
  int64_t out = codes.size(0), in = codes.size(1), groups = scales.size(1);
  auto grouped = codes.to(at::kFloat).view({out, groups, in / groups});
  return ((grouped - zeros.unsqueeze(2)) * scales.unsqueeze(2)).view({out, in});
}

Grid min_max_qparams(const Tensor& values, const GroupQuantConfig& config, double reach) {
  const double most = (1 << config.bits) - 1;
  auto high = values.amax(-1).clamp_min(0) * reach, low = values.amin(-1).clamp_max(0) * reach;
  if (config.symmetric) {
    high = at::maximum(high, -low);
    low = -high;
  }
  auto scales = ((high - low) / most).clamp_min(1e-6).to(at::kHalf).to(at::kFloat);
  scales = scales.clamp_min(6e-8);  // the smallest float16 value
  auto zeros = config.symmetric ? at::full_like(scales, (most + 1) / 2) : (-low / scales).round().clamp(0, most);
  return {scales, zeros};
}

Tensor quantize_values(const Tensor& values, const Tensor& scales, const Tensor& zeros, int bits) {
  return (values / scales + zeros).round().clamp(0, (1 << bits) - 1);
}

QuantizedWeight round_to_nearest(const Tensor& weight, const GroupQuantConfig& config) {
  int64_t out = weight.size(0), in = weight.size(1), group = config.inputs_of_group(in);
  HONE_CHECK(in % group == 0, "{} inputs in groups of {}", in, group);
  auto grouped = weight.to(at::kFloat).view({out, in / group, group});
  auto grid = min_max_qparams(grouped, config);
  auto codes = quantize_values(grouped, grid.scales.unsqueeze(2), grid.zeros.unsqueeze(2), config.bits);
  return {codes.to(at::kInt).view({out, in}), grid.scales, grid.zeros};
}

}  // namespace hone::tuner
