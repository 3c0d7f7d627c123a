#include "hone/ops/cpu/packed_matmul.h"

#include "hone/ops/cpu/outputs.h"
#include "hone/ops/cpu/packed_kernels.h"

namespace hone::ops::cpu {
namespace {

Tensor packed_codes(const Tensor& codes, int bits) {
  auto padded = at::constant_pad_nd(codes, {0, padded_width(codes.size(1)) - codes.size(1)}).to(at::kInt);
  auto fields = padded.view({codes.size(0), -1, 32 / bits, kPackedWords}).unbind(2);
  auto words = fields[0].clone();
  for (size_t i = 1; i < fields.size(); ++i) words.bitwise_or_(fields[i].bitwise_left_shift(static_cast<int64_t>(i) * bits));
  return words.reshape({codes.size(0), -1});
}

struct PackedInput {
  Tensor x, sums;
};

PackedInput packed_input(const Tensor& x, int64_t width) {
  auto x32 = x.to(at::kFloat).contiguous();
  if (x.size(1) < width) x32 = at::constant_pad_nd(x32, {0, width - x.size(1)});
  auto sums = at::empty({x.size(0), padded_groups(width)}, x32.options());
  group_sums(x32.const_data_ptr<float>(), sums.mutable_data_ptr<float>(), x.size(0), width);
  return {x32, sums};
}

}  // namespace

PackedWeight pack_int8(const Tensor& codes, const Tensor& scales) { return {8, codes.size(1), packed_codes(codes, 8), scales.contiguous()}; }

PackedWeight pack_int4(const Tensor& codes, const Tensor& scales, const Tensor& lowest) {
  int64_t groups = padded_groups(padded_width(codes.size(1)));
  auto in_spans = [&](const Tensor& x) { return at::constant_pad_nd(x, {0, groups - x.size(1)}).view({x.size(0), -1, 1, kGroupSpan}); };
  return {4, codes.size(1), packed_codes(codes, 4), at::cat({in_spans(scales), in_spans(lowest)}, 2).to(at::kBFloat16)};
}

Tensor packed_matmul(const Tensor& x, const PackedWeight& weight) {
  int64_t outputs = weight.codes.size(0), words = weight.codes.size(1), width = padded_width(weight.width);
  auto input = packed_input(x, width);
  auto y = at::empty({x.size(0), outputs}, input.x.options());
  const auto *from = input.x.const_data_ptr<float>(), *sums = input.sums.const_data_ptr<float>();
  const auto* codes = weight.codes.const_data_ptr<int32_t>();
  auto* to = y.mutable_data_ptr<float>();
  for_outputs(outputs, width, [&](int64_t first, int64_t count) {
    SmallShape shape{x.size(0), width, count, outputs};
    if (weight.bits == 8) {
      packed_outputs_int8(from, sums, codes + first * words, weight.scales.const_data_ptr<float>() + first, to + first, shape);
    } else {
      const auto* scales = weight.scales.const_data_ptr<c10::BFloat16>() + first * 2 * padded_groups(width);
      packed_outputs_int4(from, sums, codes + first * words, scales, to + first, shape);
    }
  });
  return y;
}

Tensor unpacked_rows(const PackedWeight& weight, int64_t first, int64_t count) {
  int64_t words = weight.codes.size(1), width = padded_width(weight.width);
  auto rows = at::empty({count, width}, at::TensorOptions(at::kFloat));
  const auto* codes = weight.codes.const_data_ptr<int32_t>() + first * words;
  auto* to = rows.mutable_data_ptr<float>();
  for_outputs(count, width, [&](int64_t begin, int64_t rows) {
    int64_t output = first + begin;
    if (weight.bits == 8) {
      unpack_int8(codes + begin * words, weight.scales.const_data_ptr<float>() + output, to + begin * width, rows, width);
    } else {
      const auto* scales = weight.scales.const_data_ptr<c10::BFloat16>() + output * 2 * padded_groups(width);
      unpack_int4(codes + begin * words, scales, to + begin * width, rows, width);
    }
  });
  return rows.narrow(1, 0, weight.width);
}

}  // namespace hone::ops::cpu
