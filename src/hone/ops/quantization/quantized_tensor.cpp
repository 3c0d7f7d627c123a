#include "hone/ops/quantization/quantized_tensor.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "hone/base/error.h"
#include "hone/ops/quantization/packed_codes.h"

namespace hone::ops {
namespace {

constexpr int64_t kScaleBlock = 256;

// QLoRA's NF4: quantiles of a normal distribution with an exact zero, scaled to [-1, 1].
constexpr std::array<float, 16> kNf4 = {-1.0F,
                                        -0.6961928009986877F,
                                        -0.5250730514526367F,
                                        -0.39491748809814453F,
                                        -0.28444138169288635F,
                                        -0.18477343022823334F,
                                        -0.09105003625154495F,
                                        0.0F,
                                        0.07958029955625534F,
                                        0.16093020141124725F,
                                        0.24611230194568634F,
                                        0.33791524171829224F,
                                        0.44070982933044434F,
                                        0.5626170039176941F,
                                        0.7229568362236023F,
                                        1.0F};
// FP4: a sign, two exponent bits and one fraction bit, the smallest value nearly zero.
constexpr std::array<float, 15> kFp4 = {-1.0F,        -0.6666667F, -0.5F, -0.3333333F, -0.25F, -0.1666667F, -0.005208333F, 0.0F,
                                        0.005208333F, 0.1666667F,  0.25F, 0.3333333F,  0.5F,   0.6666667F,  1.0F};

Tensor table_of(QuantType code, at::Device device) {
  auto values =
      code == QuantType::nf4 ? at::ArrayRef<float>(kNf4.data(), kNf4.size()) : at::ArrayRef<float>(kFp4.data(), kFp4.size());
  return at::tensor(values, at::kFloat).to(device);
}

// The 8-bit code of scales: a sign, a decimal exponent in unary, and the remaining bits for the fraction.
Tensor dynamic_table(at::Device device) {
  constexpr int kExponents = 7;
  std::vector<float> values{0.0F, 1.0F};
  for (int exponent = 0; exponent < kExponents; ++exponent) {
    const int parts = 1 << exponent;
    for (int part = 0; part < parts; ++part) {
      double width = 0.9 / parts, middle = 0.1 + width * (part + 0.5),
             value = std::pow(10.0, exponent - (kExponents - 1)) * middle;
      values.push_back(static_cast<float>(value));
      values.push_back(static_cast<float>(-value));
    }
  }
  std::ranges::sort(values);
  return at::tensor(values, at::kFloat).to(device);
}

Tensor nearest(const Tensor& values, const Tensor& table) {
  return at::bucketize(values, (table.slice(0, 1) + table.slice(0, 0, -1)) * 0.5).to(at::kByte);
}

Tensor in_blocks(const Tensor& values, int64_t block) {
  return at::constant_pad_nd(values.reshape({-1}), {0, (block - values.numel() % block) % block}).view({-1, block});
}

Tensor largest_of(const Tensor& blocks) { return std::get<0>(blocks.abs().max(1, /*keepdim=*/true)); }
// A block of zeros has no scale: any divisor leaves it zero.
Tensor divisors(const Tensor& largest) { return at::where(largest > 0, largest, at::ones_like(largest)); }

Tensor looked_up(const Tensor& table, const Tensor& codes) {
  return table.index_select(0, codes.reshape({-1}).to(at::kInt)).view(codes.sizes());
}

}  // namespace

Tensor pack_codes(const Tensor& codes, int bits) {
  const int64_t room = 8 / bits;
  auto rows = in_blocks(codes, room).to(at::kInt);
  auto bytes = at::zeros({rows.size(0)}, rows.options());
  for (int64_t i = 0; i < room; ++i) bytes = bytes * (1 << bits) + rows.select(1, i);
  return bytes.to(at::kByte);
}
Tensor unpack_codes(const Tensor& bytes, int bits, int64_t count) {
  const int64_t room = 8 / bits;
  TensorList parts;
  for (int64_t i = room - 1; i >= 0; --i) parts.push_back(bytes.bitwise_right_shift(i * bits).bitwise_and((1 << bits) - 1));
  return at::stack(parts, 1).view({-1}).slice(0, 0, count);
}

const char* code_name(QuantType code) {
  switch (code) {
    case QuantType::nf4:
      return "nf4";
    case QuantType::fp4:
      return "fp4";
    case QuantType::int8:
      return "int8";
    case QuantType::grouped:
      return "grouped integers";
  }
  HONE_CHECK(false, "no such code");
}

QuantizedTensor::QuantizedTensor(const Tensor& weight, const WeightQuantization& how) : how_(how), shape_(weight.sizes().vec()) {
  at::NoGradGuard no_grad;
  if (how.code == QuantType::int8) {
    // Through float16 and a reciprocal, as in bitsandbytes: PEFT must get the same base to the last bit.
    auto full = weight.to(at::kHalf).to(at::kFloat);
    scales_ = largest_of(full);
    codes_ = (full * (divisors(scales_).reciprocal() * 127.0)).round_().to(at::kChar);
    return;
  }
  if (how.code == QuantType::grouped) {
    if (how.grouped.solver == RangeMethod::min_max) how_.grouped.group = quanto_group(how.grouped.bits, weight.size(1));
    auto made = grouped_codes(weight, how_.grouped);
    codes_ = pack_codes(made.codes, how.grouped.bits);
    scales_ = made.scales, outer_ = made.zeros;
    return;
  }
  auto blocks = in_blocks(weight.to(at::kFloat), block_);
  scales_ = largest_of(blocks);
  table_ = table_of(how.code, weight.device());
  codes_ = pack_codes(nearest(blocks / divisors(scales_), table_), kShortBits);
  if (!how.double_quant) return;
  offset_ = scales_.mean().item<double>();
  auto centred = in_blocks(scales_ - offset_, kScaleBlock);
  outer_ = largest_of(centred);
  scale_table_ = dynamic_table(weight.device());
  scales_ = nearest(centred / divisors(outer_), scale_table_).view({-1}).slice(0, 0, scales_.numel()).clone();
}

Tensor QuantizedTensor::scales() const {
  if (!how_.double_quant || how_.code == QuantType::int8) return scales_;
  auto values = in_blocks(looked_up(scale_table_, scales_), kScaleBlock) * outer_;
  return values.view({-1}).slice(0, 0, scales_.numel()).view({-1, 1}) + offset_;
}

Tensor QuantizedTensor::dequantize(at::ScalarType type) const {
  at::NoGradGuard no_grad;
  if (how_.code == QuantType::int8) return (codes_.to(at::kFloat) * scales_ * (1.0 / 127)).to(type);
  const int64_t count = c10::multiply_integers(shape_);
  if (how_.code == QuantType::grouped) {
    return ((unpack_codes(codes_, how_.grouped.bits, count).view(grouped_shape(how_.grouped)).to(at::kFloat) - outer_) * scales_)
        .view(shape_)
        .to(type);
  }
  const auto scale = scales();
  auto codes = unpack_codes(codes_, kShortBits, scale.numel() * block_).view({-1, block_});
  return (looked_up(table_, codes) * scale).view({-1}).slice(0, 0, count).view(shape_).to(type);
}

QuantizedTensorParts QuantizedTensor::parts() const { return {codes_, scales_, outer_, table_, scale_table_, offset_}; }

size_t QuantizedTensor::bytes() const {
  size_t total = codes_.nbytes() + scales_.nbytes();
  return outer_.defined() ? total + outer_.nbytes() : total;
}

}  // namespace hone::ops
