#include "hone/ops/cpu/gemm/packed_matmul.h"

#include "hone/ops/cpu/dispatch.h"
#include "hone/ops/cpu/gemm/arm/interleaved_layout.h"
#include "hone/ops/cpu/gemm/int16_dot_gemm.h"
#include "hone/ops/cpu/gemm/int8_dot_gemm.h"
#include "hone/ops/cpu/gemm/outputs.h"
#include "hone/ops/cpu/gemm/packed_kernels.h"
#include "hone/ops/cpu/gemm/packed_linear.h"
#include "hone/ops/cpu/gemm/panel_dots.h"
#include "hone/ops/cpu/gemm/panel_gemm.h"
#include "hone/ops/cpu/gemm/panel_gemm_kernels.h"
#include "hone/ops/cpu/parallel.h"
#include "hone/ops/cpu/scratch.h"
#include "hone/ops/linear/matmul.h"

namespace hone::ops::cpu {
namespace {

// Packs slices of codes along `fields` into words, lowest field first.
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

SkinnyShape packed_shape(int64_t rows, const PackedWeight& weight) {
  const int64_t outputs = weight.codes.size(0);
  return {rows, padded_width(weight.width), outputs, outputs};
}

// The bias and the dtype of a product.
struct Finish {
  Tensor bias;
  at::ScalarType dtype;
};

// compute(codes, scales, y, shape) over ranges of the outputs.
template <class Scale, class Compute>
Tensor outputs_of(int64_t rows, const PackedWeight& weight, const Finish& finish, Compute compute) {
  const auto* codes = weight.codes.const_data_ptr<int32_t>();
  const auto* scales = weight.scales.const_data_ptr<Scale>();
  const int64_t words = weight.codes.size(1), own = weight.scales.numel() / weight.codes.size(0);
  return linear_outputs(
      packed_shape(rows, weight), finish.bias, finish.dtype,
      [&](float* y, int64_t first, const SkinnyShape& shape) { compute(codes + first * words, scales + first * own, y, shape); });
}

Tensor int8_matmul(const Tensor& x, const Tensor& sums, const PackedWeight& weight, const Finish& finish) {
  return outputs_of<float>(
      x.size(0), weight, finish, [&](const int32_t* codes, const float* scales, float* y, const SkinnyShape& shape) {
        packed_outputs_int8(x.const_data_ptr<float>(), sums.const_data_ptr<float>(), codes, scales, y, shape);
      });
}

Tensor int4_matmul(const Tensor& x, const Tensor& sums, const PackedWeight& weight, const Finish& finish) {
  auto ordered = at::empty_like(x);
  order_by_fields(x.const_data_ptr<float>(), ordered.mutable_data_ptr<float>(), x.numel());
  return outputs_of<c10::BFloat16>(
      x.size(0), weight, finish, [&](const int32_t* codes, const c10::BFloat16* scales, float* y, const SkinnyShape& shape) {
        packed_outputs_int4(ordered.const_data_ptr<float>(), sums.const_data_ptr<float>(), codes, scales, y, shape);
      });
}

// quantize(first row, rows in float32, count) over rows of x, zero-padded to `width`.
template <class Quantize>
void for_padded_rows(const Tensor& x, int64_t width, Quantize quantize) {
  with_type(x.scalar_type(), [&](auto type) {
    const auto* from = x.const_data_ptr<decltype(type)>();
    const int64_t own = x.size(1);
    parallel_pieces(x.size(0), row_grain(width), [&](int64_t begin, int64_t end) {
      if constexpr (std::is_same_v<decltype(type), float>)
        if (own == width) return quantize(begin, from + begin * width, end - begin);
      thread_local std::vector<float> kept;
      auto* row = grown(kept, width);
      std::fill(row + own, row + width, 0.0f);
      for (int64_t m = begin; m < end; ++m) {
        pack_rows(from + m * own, row, 1, own);
        quantize(m, row, int64_t{1});
      }
    });
  });
}

// Inputs are quantized into one buffer: tensors for their parts would cost more than the rounding of a row.
class RoundedInput {
 public:
  RoundedInput(const Tensor& x, int64_t width)
      : count_(x.size(0)), width_(width), kept_(count_ * (width / 8 + padded_groups(width) + width / 4)) {
    const auto all = rows();
    for_padded_rows(x, width, [&](int64_t first, const float* numbers, int64_t count) {
      quantize_activations(numbers,
                           {all.codes + first * width, all.scales + first * width / 8, all.sums + first * padded_groups(width)},
                           count, width);
    });
  }
  QuantizedActivations rows() const {
    float *scales = kept_.data(), *sums = scales + count_ * width_ / 8;
    return {reinterpret_cast<int8_t*>(sums + count_ * padded_groups(width_)), scales, sums};
  }
  // The dequantized values, in the original order of inputs.
  Tensor values() const {
    const auto all = rows();
    const auto codes = at::from_blob(all.codes, {count_, width_}, at::kChar),
               scales = at::from_blob(all.scales, {count_, width_ / 8}, at::kFloat);
    auto ordered = codes.view({count_, -1, 2, kPackedBlock / 2}).transpose(2, 3).reshape({count_, -1, 8});
    return (ordered.to(at::kFloat) * scales.unsqueeze(2)).view(codes.sizes());
  }

 private:
  int64_t count_, width_;
  CallBuffer kept_;
};

Tensor int4_byte_matmul(const Tensor& x, const PackedWeight& weight, const Finish& finish) {
  const RoundedInput rounded(x, padded_width(weight.width));
  return outputs_of<c10::BFloat16>(x.size(0), weight, finish,
                                   [&](const int32_t* codes, const c10::BFloat16* scales, float* y, const SkinnyShape& shape) {
                                     int8_dot_int4_weights(rounded.rows(), codes, scales, y, shape);
                                   });
}

class SplitInput {
 public:
  SplitInput(const Tensor& x, int64_t width)
      : count_(x.size(0)), width_(width), kept_(count_ * (width / 2 + width / kSplitGroup)) {
    const auto all = rows();
    for_padded_rows(x, width, [&](int64_t first, const float* numbers, int64_t count) {
      const int64_t at = first * width;
      quantize_int16(numbers, {all.words + at / 2, all.scales + at / kSplitGroup}, count, width);
    });
  }
  Int16Activations rows() const { return {reinterpret_cast<int32_t*>(kept_.data()), kept_.data() + count_ * width_ / 2}; }
  // The dequantized values, in the original order of inputs.
  Tensor values() const {
    auto x = at::empty({count_, width_}, at::kFloat);
    dequantize_int16(rows(), x.mutable_data_ptr<float>(), count_, width_);
    return x;
  }

 private:
  int64_t count_, width_;
  CallBuffer kept_;
};

Tensor int8_split_matmul(const Tensor& x, const PackedWeight& weight, const Finish& finish) {
  const SplitInput split(x, padded_width(weight.width));
  return outputs_of<float>(x.size(0), weight, finish,
                           [&](const int32_t* codes, const float* scales, float* y, const SkinnyShape& shape) {
                             split_outputs_int8(split.rows(), codes, scales, y, shape);
                           });
}

static_assert(kPanelDepth % kSpanInputs == 0);

// Dequantized columns of W^T, for panel_gemm. Their pieces stay in the cache.
PackColumns columns_of(const PackedWeight& weight) {
  return [&weight](int64_t column, int64_t columns, int64_t step, int64_t steps, float* panels) {
    thread_local std::vector<float> kept;
    const int64_t padded = padded_width(steps);
    auto* lines = grown(kept, columns * padded);
    const auto* scales = weight.bits == 4 ? weight.scales.const_data_ptr<c10::BFloat16>() : nullptr;
    for (int64_t i = 0; i < columns; ++i) {
      const int64_t output = column + i;
      const auto* codes = weight.codes.const_data_ptr<int32_t>() + output * weight.codes.size(1) + step * weight.bits / 32;
      if (weight.bits == 8)
        unpack_int8(codes, weight.scales.const_data_ptr<float>() + output, lines + i * padded, 1, padded);
      else
        unpack_int4(codes, scales + output * (weight.scales.numel() / weight.codes.size(0)) + step / kSpanInputs * 2 * kGroupSpan,
                    lines + i * padded, 1, padded);
    }
    pack_column_panels(lines, PanelSource{padded, 1, columns, steps}, panels);
  };
}

}  // namespace

PackedWeight pack_int8(const Tensor& codes, const Tensor& scales) {
  auto words = packed_codes(padded_codes(codes).view({codes.size(0), -1, 4, kPackedWords}), 8, 2);
  return {8, codes.size(1), interleaves_outputs() ? interleave_codes(words) : words, scales.contiguous()};
}

PackedWeight pack_int4(const Tensor& codes, const Tensor& scales, const Tensor& min) {
  int64_t groups = padded_groups(padded_width(codes.size(1)));
  auto in_spans = [&](const Tensor& x) {
    return at::constant_pad_nd(x, {0, groups - x.size(1)}).view({x.size(0), -1, 1, kGroupSpan});
  };
  auto words = packed_codes(padded_codes(codes).view({codes.size(0), -1, kPackedWords, 8}), 4, 3);
  auto by_group = at::cat({in_spans(scales), in_spans(min)}, 2).to(at::kBFloat16);
  if (interleaves_outputs()) return {4, codes.size(1), interleave_codes(words), interleave_scales(by_group)};
  return {4, codes.size(1), words, by_group};
}

Tensor fake_quantize_input(const Tensor& x, const PackedWeight& weight) {
  const int64_t width = padded_width(weight.width);
  if (rounds_inputs(weight)) return RoundedInput(x.contiguous(), width).values().narrow(1, 0, weight.width);
  if (splits_inputs(weight)) return SplitInput(x.contiguous(), width).values().narrow(1, 0, weight.width);
  return x.to(at::kFloat);
}

bool multiplies_many_rows() { return has_panel_dots() || has_panel_gemm(); }

Tensor unpacked_matmul(const Tensor& x, const PackedWeight& weight, const Tensor& bias) {
  auto y = at::empty({x.size(0), weight.codes.size(0)}, x.options());
  panel_gemm(x, columns_of(weight), bias, y);
  return y;
}

Tensor packed_matmul(const Tensor& x, const PackedWeight& weight, const Tensor& bias) {
  const int64_t width = padded_width(weight.width), rows = x.size(0);
  if (!has_panel_dots()) return unpacked_matmul(x, weight, bias);
  return rounds_inputs(weight) ? panel_dots_int4(RoundedInput(x.contiguous(), width).rows(), rows, weight, bias, x.scalar_type())
                               : panel_dots_int8(SplitInput(x.contiguous(), width).rows(), rows, weight, bias, x.scalar_type());
}

Tensor packed_linear(const Tensor& x, const PackedWeight& weight, const Tensor& bias) {
  const Finish finish{bias, x.scalar_type()};
  if (rounds_inputs(weight)) return int4_byte_matmul(x.contiguous(), weight, finish);
  if (splits_inputs(weight)) return int8_split_matmul(x.contiguous(), weight, finish);
  const int64_t width = padded_width(weight.width);
  auto input = padded_input(x, width);
  auto sums = at::empty({x.size(0), padded_groups(width)}, input.options());
  group_sums(input.const_data_ptr<float>(), sums.mutable_data_ptr<float>(), x.size(0), width);
  return weight.bits == 8 ? int8_matmul(input, sums, weight, finish) : int4_matmul(input, sums, weight, finish);
}

Tensor unpacked_rows(const PackedWeight& weight, int64_t first, int64_t count) {
  const int64_t fours = interleaves_outputs() ? kInterleavedOutputs : 1, begin = first / fours * fours,
                outputs = weight.codes.size(0), total = std::min(outputs, (first + count + fours - 1) / fours * fours) - begin,
                width = padded_width(weight.width);
  auto codes = weight.codes.narrow(0, begin, total), scales = weight.scales.narrow(0, begin, total);
  if (interleaves_outputs()) {
    codes = separate_codes(codes);
    if (weight.bits == 4) scales = separate_scales(scales);
  }
  auto rows = at::empty({total, width}, at::TensorOptions(at::kFloat));
  for_outputs(total, width, [&](int64_t at, int64_t lines) {
    const auto* words = codes.const_data_ptr<int32_t>() + at * codes.size(1);
    auto* to = rows.mutable_data_ptr<float>() + at * width;
    if (weight.bits == 8)
      unpack_int8(words, scales.const_data_ptr<float>() + at, to, lines, width);
    else
      unpack_int4(words, scales.const_data_ptr<c10::BFloat16>() + at * 2 * padded_groups(width), to, lines, width);
  });
  return rows.narrow(0, first - begin, count).narrow(1, 0, weight.width);
}

}  // namespace hone::ops::cpu
