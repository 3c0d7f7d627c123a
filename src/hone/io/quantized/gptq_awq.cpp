#include "hone/io/quantized/gptq_awq.h"

#include <array>

#include "hone/base/error.h"

namespace hone::io {
namespace {

Tensor shifts(int bits) { return at::arange(0, 32, bits, at::TensorOptions(at::kInt)); }

constexpr int kAwqBits = 4;
constexpr std::array<int64_t, 8> kAwqOrder = {0, 2, 4, 6,
                                              1, 3, 5, 7};  // the i-th nibble of a word holds this column of its eight

// Reorders every eight columns.
Tensor reordered(const Tensor& values, const Tensor& order) {
  return values.view({values.size(0), -1, 8}).index_select(2, order).view({values.size(0), -1});
}

Tensor nibble_order() { return at::tensor(at::ArrayRef<int64_t>(kAwqOrder.data(), kAwqOrder.size()), at::kLong); }

}  // namespace

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

Tensor unpack_columns(const Tensor& words, int bits) {
  HONE_CHECK(bits == 2 || bits == 4 || bits == 8, "{} bits", bits);
  auto parts = words.to(at::kInt).unsqueeze(-1).bitwise_right_shift(shifts(bits)).bitwise_and((1 << bits) - 1);
  return parts.view({words.size(0), -1});
}

Tensor pack_columns(const Tensor& values, int bits) {
  int64_t in_word = 32 / bits;
  HONE_CHECK(values.size(1) % in_word == 0, "{} values do not fill words of {}", values.size(1), in_word);
  auto parts = values.to(at::kLong).view({values.size(0), -1, in_word}).bitwise_left_shift(shifts(bits).to(at::kLong)).sum(-1);
  return parts.to(at::kInt);  // the same 32 bits, whatever the sign they spell
}

Tensor unpack_rows(const Tensor& words, int bits) { return unpack_columns(words.t().contiguous(), bits).t().contiguous(); }
Tensor pack_rows(const Tensor& values, int bits) { return pack_columns(values.t().contiguous(), bits).t().contiguous(); }

Tensor dequantize(const AwqWeight& weight) {
  auto plain_order = nibble_order().argsort();
  auto codes_io = reordered(unpack_columns(weight.qweight, kAwqBits), plain_order).to(at::kFloat);
  auto zeros_go = reordered(unpack_columns(weight.qzeros, kAwqBits), plain_order).to(at::kFloat);
  int64_t group = codes_io.size(0) / zeros_go.size(0);
  auto over_inputs = [&](const Tensor& values_go) { return values_go.repeat_interleave(group, 0); };
  return ((codes_io - over_inputs(zeros_go)) * over_inputs(weight.scales.to(at::kFloat))).t().contiguous();
}

AwqWeight pack_awq(const Tensor& codes, const Tensor& scales, const Tensor& zeros) {
  auto pack = [](const Tensor& values) { return pack_columns(reordered(values.t().contiguous(), nibble_order()), kAwqBits); };
  return {pack(codes), pack(zeros), scales.t().contiguous().to(at::kHalf)};
}

}  // namespace hone::io
