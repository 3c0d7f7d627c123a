#include "hone/io/quantized/awq.h"

#include <array>

#include "hone/io/quantized/bit_packing.h"

namespace hone::io {
namespace {

constexpr int kAwqBits = 4;
constexpr std::array<int64_t, 8> kAwqOrder = {0, 2, 4, 6,
                                              1, 3, 5, 7};  // the i-th nibble of a word holds this column of its eight

// Reorders every eight columns.
Tensor reordered(const Tensor& values, const Tensor& order) {
  return values.view({values.size(0), -1, 8}).index_select(2, order).view({values.size(0), -1});
}

Tensor nibble_order() { return at::tensor(at::ArrayRef<int64_t>(kAwqOrder.data(), kAwqOrder.size()), at::kLong); }

}  // namespace

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
