#include "hone/io/quantized/gptq.h"

#include "hone/io/quantized/bit_packing.h"

namespace hone::io {

Tensor dequantize(const GptqWeight& weight, int bits, bool has_v1_zeros) {
  auto codes_io = unpack_rows(weight.qweight, bits);
  auto zeros_go = unpack_columns(weight.qzeros, bits);
  if (has_v1_zeros) zeros_go = (zeros_go + 1).bitwise_and((1 << bits) - 1);
  auto group = weight.g_idx.to(at::kLong);
  auto scales_io = weight.scales.to(at::kFloat).index_select(0, group);
  auto zeros_io = zeros_go.narrow(1, 0, weight.scales.size(1)).to(at::kFloat).index_select(0, group);
  return ((codes_io.to(at::kFloat) - zeros_io) * scales_io).t().contiguous();
}

GptqWeight pack_gptq(const Tensor& codes, const Tensor& scales, const Tensor& zeros, const Tensor& groups_of_inputs, int bits,
                     bool has_v1_zeros) {
  int most = (1 << bits) - 1;
  auto stored_zeros = (zeros.t().contiguous().to(at::kInt) - (has_v1_zeros ? 1 : 0)).bitwise_and(most);
  return {pack_rows(codes.t().contiguous(), bits), pack_columns(stored_zeros, bits), scales.t().contiguous().to(at::kHalf),
          groups_of_inputs.to(at::kInt)};
}

}  // namespace hone::io
