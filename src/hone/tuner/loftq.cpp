#include "hone/tuner/loftq.h"

#include "hone/ops/quantization/quantized_tensor.h"

namespace hone::tuner {

Tensor rounded_to_nf4(const Tensor& weight) { return ops::QuantizedTensor(weight, {ops::QuantType::nf4}).dequantize(at::kFloat); }

Tensor rounded_to_int8(const Tensor& weight) {
  return ops::QuantizedTensor(weight, {ops::QuantType::int8}).dequantize(at::kFloat);
}

LoraPair loftq(const Tensor& weight, int64_t rank, double scale, int64_t bits, int64_t rounds) {
  const Tensor full = weight.to(at::kFloat);
  LoraPair pair;
  for (int64_t round = 0; round < rounds; ++round) {
    const Tensor target = round == 0 ? full : full - scale * pair.b.mm(pair.a);
    pair.residual = bits == 4 ? rounded_to_nf4(target) : rounded_to_int8(target);
    auto [u, s, vh] = at::linalg_svd(full - pair.residual, /*full_matrices=*/false);
    const Tensor root = (s.slice(0, 0, rank) / scale).sqrt();
    pair.a = (root.unsqueeze(1) * vh.slice(0, 0, rank)).contiguous();
    pair.b = (u.slice(1, 0, rank) * root).contiguous();
  }
  pair.residual = pair.residual.to(weight.scalar_type());
  return pair;
}

}  // namespace hone::tuner
