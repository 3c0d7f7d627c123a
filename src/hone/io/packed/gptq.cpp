#include "hone/io/packed/gptq.h"

#include "hone/io/packed/words.h"

namespace hone::io {

Tensor restored(const GptqWeight& weight, int bits, bool zeros_less_one) {
  auto codes_io = unpacked_rows(weight.qweight, bits);
  auto zeros_go = unpacked_columns(weight.qzeros, bits);
  if (zeros_less_one) zeros_go = (zeros_go + 1).bitwise_and((1 << bits) - 1);
  auto group = weight.g_idx.to(at::kLong);
  auto scales_io = weight.scales.to(at::kFloat).index_select(0, group);
  auto zeros_io = zeros_go.narrow(1, 0, weight.scales.size(1)).to(at::kFloat).index_select(0, group);
  return ((codes_io.to(at::kFloat) - zeros_io) * scales_io).t().contiguous();
}

GptqWeight packed_gptq(const Tensor& codes, const Tensor& scales, const Tensor& zeros, const Tensor& groups_of_inputs, int bits, bool zeros_less_one) {
  int most = (1 << bits) - 1;
  auto stored_zeros = (zeros.t().contiguous().to(at::kInt) - (zeros_less_one ? 1 : 0)).bitwise_and(most);
  return {packed_rows(codes.t().contiguous(), bits), packed_columns(stored_zeros, bits), scales.t().contiguous().to(at::kHalf), groups_of_inputs.to(at::kInt)};
}

}  // namespace hone::io
