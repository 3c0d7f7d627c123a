#include "hone/ops/quantization/quantized_linear.h"

#include "hone/base/error.h"
#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/gemm/packed_kernels.h"
#include "hone/ops/cpu/gemm/packed_linear.h"
#include "hone/ops/cpu/gemm/skinny_gemm.h"

namespace hone::ops {
namespace {

constexpr int64_t kUnpackedElements = int64_t{1} << 20;  // 4 MB in float32: stays in the cache between dequantization and use

PackedWeight to_int8(const Tensor& weight) {
  auto scales = weight.abs().amax(1).div_(127.0).clamp_min_(1e-12);
  return cpu::pack_int8((weight / scales.unsqueeze(1)).round_().clamp_(-127, 127).add_(cpu::kInt8Zero).to(at::kByte), scales);
}

// Codes are chosen with the scales as they will be read, rounded to bfloat16.
PackedWeight to_int4(const Tensor& weight) {
  if (weight.size(1) % cpu::kPackedGroup)
    throw UserError(ExitCode::usage,
                    fmt::format("4 bits need widths divisible by {}; a layer here reads {}", cpu::kPackedGroup, weight.size(1)),
                    "use 8 bits");
  auto groups = weight.view({weight.size(0), -1, cpu::kPackedGroup});
  auto as_read = [](const Tensor& x) { return x.to(at::kBFloat16).to(at::kFloat); };
  auto lowest = as_read(groups.amin(2)), scales = as_read((groups.amax(2) - lowest).div_(15.0).clamp_min_(1e-12));
  auto codes = ((groups - lowest.unsqueeze(2)) / scales.unsqueeze(2)).round_().clamp_(0, 15).to(at::kByte);
  return cpu::pack_int4(codes.view(weight.sizes()), scales, lowest);
}

}  // namespace

std::shared_ptr<const PackedWeight> quantize_weight(const Tensor& weight, int bits) {
  at::NoGradGuard no_grad;
  auto values = weight.detach().to(at::kCPU, at::kFloat).contiguous();
  if (bits == 8) return std::make_shared<PackedWeight>(to_int8(values));
  if (bits == 4) return std::make_shared<PackedWeight>(to_int4(values));
  throw UserError(ExitCode::usage, fmt::format("weights of {} bits", bits), "use 8 or 4");
}

Tensor dequantized(const PackedWeight& weight) { return cpu::unpacked_rows(weight, 0, weight.codes.size(0)).contiguous(); }

Tensor quantized_linear(const Tensor& x, const PackedWeight& weight, const Tensor& bias) {
  if (cpu::is_skinny(x)) return cpu::packed_linear(x, weight, bias);
  if (cpu::supports(x) && x.size(0) > 0 && cpu::multiplies_many_rows()) return cpu::packed_matmul(x, weight, bias);
  auto x32 = cpu::fake_quantize_input(x, weight);
  auto y = at::empty({x.size(0), weight.codes.size(0)}, x32.options());
  int64_t step = std::max<int64_t>(64, kUnpackedElements / weight.width);
  for (int64_t first = 0; first < y.size(1); first += step) {
    int64_t count = std::min(step, y.size(1) - first);
    auto part = y.narrow(1, first, count);
    at::mm_out(part, x32, cpu::unpacked_rows(weight, first, count).t());
  }
  if (bias.defined()) y.add_(bias);
  return y.to(x.scalar_type());
}

}  // namespace hone::ops
