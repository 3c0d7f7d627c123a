#include "hone/ops/cpu/gemm/packed_matmul.h"

#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/gemm/int16_dot_gemm.h"
#include "hone/ops/cpu/gemm/int8_dot_gemm.h"
#include "hone/ops/cpu/gemm/packed_kernels.h"
#include "hone/ops/cpu/gemm/panel_dots.h"
#include "hone/ops/cpu/outputs.h"
#include "hone/ops/cpu/parallel.h"
#include "hone/ops/linear/matmul.h"

namespace hone::ops::cpu {
namespace {

// Words whose fields, lowest first, are the slices of codes along `fields`.
Tensor packed_codes(const Tensor& codes, int bits, int64_t fields) {
  auto slices = codes.unbind(fields);
  auto words = slices[0].clone();
  for (size_t i = 1; i < slices.size(); ++i) words.bitwise_or_(slices[i].bitwise_left_shift(static_cast<int64_t>(i) * bits));
  return words.reshape({codes.size(0), -1});
}

Tensor padded_codes(const Tensor& codes) {
  return at::constant_pad_nd(codes, {0, padded_width(codes.size(1)) - codes.size(1)}).to(at::kInt);
}

Tensor padded_input(const Tensor& x, int64_t width) {
  auto x32 = x.to(at::kFloat).contiguous();
  return x.size(1) < width ? at::constant_pad_nd(x32, {0, width - x.size(1)}) : x32;
}

bool rounds_inputs(const PackedWeight& weight) { return weight.bits == 4 && has_int8_dot(); }
bool splits_inputs(const PackedWeight& weight) { return weight.bits == 8 && has_int16_dot(); }

// compute(first, shape, y) over pieces of the outputs.
template <class Compute>
Tensor outputs_of(const Tensor& x, const PackedWeight& weight, Compute compute) {
  const int64_t outputs = weight.codes.size(0), width = padded_width(weight.width);
  auto y = at::empty({x.size(0), outputs}, x.options());
  auto* to = y.mutable_data_ptr<float>();
  for_outputs(outputs, width, [&](int64_t first, int64_t count) {
    compute(first, SkinnyShape{x.size(0), width, count, outputs}, to + first);
  });
  return y;
}

Tensor int8_matmul(const Tensor& x, const Tensor& sums, const PackedWeight& weight) {
  const auto* codes = weight.codes.const_data_ptr<int32_t>();
  const auto* scales = weight.scales.const_data_ptr<float>();
  return outputs_of(x, weight, [&](int64_t first, const SkinnyShape& shape, float* y) {
    packed_outputs_int8(x.const_data_ptr<float>(), sums.const_data_ptr<float>(), codes + first * weight.codes.size(1),
                        scales + first, y, shape);
  });
}

// compute(codes, scales, y, shape) over pieces of the outputs of 4-bit weights.
template <class Compute>
Tensor int4_outputs(const Tensor& x, const PackedWeight& weight, Compute compute) {
  const auto* codes = weight.codes.const_data_ptr<int32_t>();
  const auto* scales = weight.scales.const_data_ptr<c10::BFloat16>();
  return outputs_of(x, weight, [&](int64_t first, const SkinnyShape& shape, float* y) {
    compute(codes + first * weight.codes.size(1), scales + first * 2 * padded_groups(shape.width), y, shape);
  });
}

Tensor int4_matmul(const Tensor& x, const Tensor& sums, const PackedWeight& weight) {
  auto ordered = at::empty_like(x);
  order_by_fields(x.const_data_ptr<float>(), ordered.mutable_data_ptr<float>(), x.numel());
  return int4_outputs(x, weight, [&](const int32_t* codes, const c10::BFloat16* scales, float* y, const SkinnyShape& shape) {
    packed_outputs_int4(ordered.const_data_ptr<float>(), sums.const_data_ptr<float>(), codes, scales, y, shape);
  });
}

struct RoundedInput {
  Tensor codes, scales, sums;  // of QuantizedActivations

  explicit RoundedInput(const Tensor& x)
      : codes(at::empty(x.sizes(), at::kChar)),
        scales(at::empty({x.size(0), x.size(1) / 8}, x.options())),
        sums(at::empty({x.size(0), padded_groups(x.size(1))}, x.options())) {
    const int64_t width = x.size(1), groups = sums.size(1);
    parallel_pieces(x.size(0), row_grain(width), [&](int64_t begin, int64_t end) {
      const auto all = rows();
      quantize_activations(x.const_data_ptr<float>() + begin * width,
                           {all.codes + begin * width, all.scales + begin * width / 8, all.sums + begin * groups}, end - begin,
                           width);
    });
  }
  QuantizedActivations rows() const {
    return {codes.mutable_data_ptr<int8_t>(), scales.mutable_data_ptr<float>(), sums.mutable_data_ptr<float>()};
  }
  // The numbers they stand for, in the inputs' own order.
  Tensor values() const {
    auto ordered = codes.view({codes.size(0), -1, 2, kPackedBlock / 2}).transpose(2, 3).reshape({codes.size(0), -1, 8});
    return (ordered.to(at::kFloat) * scales.unsqueeze(2)).view(codes.sizes());
  }
};

Tensor int4_byte_matmul(const Tensor& x, const PackedWeight& weight) {
  const RoundedInput rounded(x);
  if (x.size(0) > kBatchInvariantRows && has_panel_dots()) return panel_dots_int4(rounded.rows(), x.size(0), weight);
  return int4_outputs(x, weight, [&](const int32_t* codes, const c10::BFloat16* scales, float* y, const SkinnyShape& shape) {
    int8_dot_int4_weights(rounded.rows(), codes, scales, y, shape);
  });
}

struct SplitInput {
  Tensor high, low, scales;  // of Int16Activations

  explicit SplitInput(const Tensor& x)
      : high(at::empty(x.sizes(), at::kChar)),
        low(at::empty(x.sizes(), at::kChar)),
        scales(at::empty({x.size(0), x.size(1) / kSplitGroup}, x.options())) {
    const int64_t width = x.size(1);
    parallel_pieces(x.size(0), row_grain(width), [&](int64_t begin, int64_t end) {
      const auto all = rows();
      const int64_t at = begin * width;
      quantize_int16(x.const_data_ptr<float>() + at, {all.high + at, all.low + at, all.scales + at / kSplitGroup}, end - begin,
                     width);
    });
  }
  Int16Activations rows() const {
    return {high.mutable_data_ptr<int8_t>(), low.mutable_data_ptr<int8_t>(), scales.mutable_data_ptr<float>()};
  }
  // The numbers they stand for, in the inputs' own order.
  Tensor values() const {
    auto ordered = (high.to(at::kFloat) * kHighCounts + low)
                       .view({high.size(0), -1, kPackedWords, kSplitGroup / kPackedWords})
                       .transpose(2, 3);
    return (ordered.reshape({high.size(0), -1, kSplitGroup}) * scales.unsqueeze(2)).view(high.sizes());
  }
};

Tensor int8_split_matmul(const Tensor& x, const PackedWeight& weight) {
  const SplitInput split(x);
  if (x.size(0) > kBatchInvariantRows && has_panel_dots()) return panel_dots_int8(split.rows(), x.size(0), weight);
  const auto* codes = weight.codes.const_data_ptr<int32_t>();
  const auto* scales = weight.scales.const_data_ptr<float>();
  return outputs_of(x, weight, [&](int64_t first, const SkinnyShape& shape, float* y) {
    split_outputs_int8(split.rows(), codes + first * weight.codes.size(1), scales + first, y, shape);
  });
}

}  // namespace

PackedWeight pack_int8(const Tensor& codes, const Tensor& scales) {
  return {8, codes.size(1), packed_codes(padded_codes(codes).view({codes.size(0), -1, 4, kPackedWords}), 8, 2),
          scales.contiguous()};
}

PackedWeight pack_int4(const Tensor& codes, const Tensor& scales, const Tensor& min) {
  int64_t groups = padded_groups(padded_width(codes.size(1)));
  auto in_spans = [&](const Tensor& x) {
    return at::constant_pad_nd(x, {0, groups - x.size(1)}).view({x.size(0), -1, 1, kGroupSpan});
  };
  auto words = packed_codes(padded_codes(codes).view({codes.size(0), -1, kPackedWords, 8}), 4, 3);
  return {4, codes.size(1), words, at::cat({in_spans(scales), in_spans(min)}, 2).to(at::kBFloat16)};
}

Tensor fake_quantize_input(const Tensor& x, const PackedWeight& weight) {
  auto padded = [&] { return padded_input(x, padded_width(weight.width)); };
  if (rounds_inputs(weight)) return RoundedInput(padded()).values().narrow(1, 0, weight.width);
  if (splits_inputs(weight)) return SplitInput(padded()).values().narrow(1, 0, weight.width);
  return x.to(at::kFloat);
}

bool multiplies_many_rows(const PackedWeight& weight) {
  return has_panel_dots() && (rounds_inputs(weight) || splits_inputs(weight));
}

Tensor packed_matmul(const Tensor& x, const PackedWeight& weight) {
  const int64_t width = padded_width(weight.width);
  auto input = padded_input(x, width);
  if (rounds_inputs(weight)) return int4_byte_matmul(input, weight);
  if (splits_inputs(weight)) return int8_split_matmul(input, weight);
  auto sums = at::empty({x.size(0), padded_groups(width)}, input.options());
  group_sums(input.const_data_ptr<float>(), sums.mutable_data_ptr<float>(), x.size(0), width);
  return weight.bits == 8 ? int8_matmul(input, sums, weight) : int4_matmul(input, sums, weight);
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
