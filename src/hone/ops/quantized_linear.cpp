#include "hone/ops/quantized_linear.h"

#include "hone/base/error.h"
#include "hone/ops/cpu/small_matmul.h"
#include "hone/ops/cpu/small_matmul_kernels.h"

namespace hone::ops {
namespace {

using cpu::kInt4Group;
constexpr int64_t kBlockRows = 1024;  // widened at a time for long inputs

std::shared_ptr<const QuantizedWeight> to_int8(const Tensor& weight) {
  auto scales = weight.abs().amax(1).div_(127.0).clamp_min_(1e-12);
  auto codes = (weight / scales.unsqueeze(1)).round_().clamp_(-127, 127).add_(cpu::kInt8Zero).to(at::kByte);
  return std::make_shared<QuantizedWeight>(8, codes, scales);
}

std::shared_ptr<const QuantizedWeight> to_int4(const Tensor& weight) {
  if (weight.size(1) % kInt4Group)
    throw UserError(ExitCode::usage, fmt::format("4 bits need widths divisible by {}; a layer here reads {}", kInt4Group, weight.size(1)), "use 8 bits");
  auto groups = weight.view({weight.size(0), -1, kInt4Group});
  auto lowest = groups.amin(2, true), scales = (groups.amax(2, true) - lowest).div_(15.0).clamp_min_(1e-12);
  auto codes = ((groups - lowest) / scales).round_().clamp_(0, 15).to(at::kByte).view({weight.size(0), -1, 2, kInt4Group / 2});
  auto packed = codes.select(2, 0).bitwise_or(codes.select(2, 1).bitwise_left_shift(4)).reshape({weight.size(0), -1}).contiguous();
  return std::make_shared<QuantizedWeight>(4, packed, at::cat({scales, lowest}, 2).contiguous());
}

// Rows [first, first + count) of the weight.
Tensor widened(const QuantizedWeight& weight, int64_t first, int64_t count) {
  auto codes = weight.codes.narrow(0, first, count), scales = weight.scales.narrow(0, first, count);
  if (weight.bits == 8) return (codes.to(at::kFloat) - cpu::kInt8Zero) * scales.unsqueeze(1);
  auto bytes = codes.view({count, -1, 1, kInt4Group / 2});
  auto values = at::cat({bytes.bitwise_and(15), bytes.bitwise_right_shift(4)}, 2).view({count, -1, kInt4Group}).to(at::kFloat);
  return (values * scales.narrow(2, 0, 1) + scales.narrow(2, 1, 1)).view({count, -1});
}

}  // namespace

std::shared_ptr<const QuantizedWeight> quantize_weight(const Tensor& weight, int bits) {
  at::NoGradGuard no_grad;
  auto values = weight.detach().to(at::kCPU, at::kFloat).contiguous();
  if (bits == 8) return to_int8(values);
  if (bits == 4) return to_int4(values);
  throw UserError(ExitCode::usage, fmt::format("weights of {} bits", bits), "use 8 or 4");
}

Tensor dequantized(const QuantizedWeight& weight) { return widened(weight, 0, weight.codes.size(0)); }

Tensor quantized_linear(const Tensor& x, const QuantizedWeight& weight, const Tensor& bias) {
  if (cpu::is_small(x))
    return weight.bits == 8 ? cpu::small_matmul_int8(x, weight.codes, weight.scales, bias) : cpu::small_matmul_int4(x, weight.codes, weight.scales, bias);
  auto x32 = x.to(at::kFloat);
  auto y = at::empty({x.size(0), weight.codes.size(0)}, x32.options());
  for (int64_t first = 0; first < y.size(1); first += kBlockRows) {
    int64_t count = std::min(kBlockRows, y.size(1) - first);
    y.narrow(1, first, count).copy_(at::mm(x32, widened(weight, first, count).t()));
  }
  if (bias.defined()) y.add_(bias);
  return y.to(x.scalar_type());
}

}  // namespace hone::ops
