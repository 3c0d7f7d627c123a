#include "hone/ops/quantized_linear.h"

#include "hone/base/error.h"

namespace hone::ops {
namespace {

constexpr int64_t kGroup = 32;

std::shared_ptr<const QuantizedWeight> to_int8(const Tensor& weight) {
  auto scales = weight.abs().amax(1).div_(127.0).clamp_min_(1e-12);
  auto packed = (weight / scales.unsqueeze(1)).round_().clamp_(-127, 127).to(at::kChar);
  return std::make_shared<QuantizedWeight>(8, packed, scales, weight.size(0));
}

struct Groups {
  Tensor scales, lowest;  // [out, groups, 1]
  Tensor codes;           // 0 … 15, int32 [out, in]
};

Groups group_codes(const Tensor& weight) {
  auto groups = weight.view({weight.size(0), -1, kGroup});
  auto lowest = groups.amin(2, true), scales = (groups.amax(2, true) - lowest).div_(15.0).clamp_min_(1e-12);
  auto codes = ((groups - lowest) / scales).round_().clamp_(0, 15).to(at::kInt).view(weight.sizes());
  return {scales, lowest, codes};
}

std::shared_ptr<const QuantizedWeight> to_int4(const Tensor& weight) {
  if (weight.size(1) % kGroup || weight.size(0) % 16)
    throw UserError(ExitCode::usage, fmt::format("4 bits need a width divisible by {} and outputs by 16; a layer here is {} x {}", kGroup, weight.size(0), weight.size(1)),
                    "use 8 bits");
  auto [scales, lowest, codes] = group_codes(weight);
  // libtorch's kernel computes (code - 8) * scale + zero, with both laid out [groups, out, 2].
  auto zeros = lowest + scales * 8;
  auto scales_and_zeros = at::cat({scales, zeros}, 2).transpose(0, 1).contiguous();
  return std::make_shared<QuantizedWeight>(4, at::_convert_weight_to_int4pack_for_cpu(codes, 1), scales_and_zeros, weight.size(0));
}

}  // namespace

std::shared_ptr<const QuantizedWeight> quantize_weight(const Tensor& weight, int bits) {
  at::NoGradGuard no_grad;
  auto values = weight.detach().to(at::kCPU, at::kFloat).contiguous();
  if (bits == 8) return to_int8(values);
  if (bits == 4) return to_int4(values);
  throw UserError(ExitCode::usage, fmt::format("weights of {} bits", bits), "use 8 or 4");
}

Tensor dequantized(const QuantizedWeight& weight, int64_t width) {
  if (weight.bits == 8) return weight.packed.to(at::kFloat) * weight.scales.unsqueeze(1);
  return quantized_linear(at::eye(width), weight, {}).t().contiguous();
}

Tensor quantized_linear(const Tensor& x, const QuantizedWeight& weight, const Tensor& bias) {
  auto rows = x.contiguous();
  auto y = weight.bits == 8 ? at::_weight_int8pack_mm(rows, weight.packed, weight.scales.to(x.scalar_type()))
                            : at::_weight_int4pack_mm_for_cpu(rows, weight.packed, kGroup, weight.scales.to(x.scalar_type()));
  return bias.defined() ? y.add_(bias) : y;
}

}  // namespace hone::ops
