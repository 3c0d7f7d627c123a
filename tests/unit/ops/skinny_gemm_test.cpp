#include "hone/ops/cpu/gemm/skinny_gemm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "hone/base/error.h"
#include "hone/ops/cpu/gemm/arm/interleaved_layout.h"
#include "hone/ops/cpu/gemm/int16_dot_gemm.h"
#include "hone/ops/cpu/gemm/int8_dot_gemm.h"
#include "hone/ops/cpu/gemm/packed_kernels.h"
#include "hone/ops/quantization/quantized_linear.h"
#include "ops/ops_testing.h"

namespace hone::ops {
namespace {

TEST(SmallMatmul, EqualsTheProductInEveryTypeAndShape) {
  for (auto type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (int64_t rows : {1, 2, 5, 6, 7, 13, 16, 32})
      for (auto [width, outputs] : {std::pair<int64_t, int64_t>{64, 7}, {40, 130}, {896, 33}}) {
        auto x = at::randn({rows, width}).to(type), weight = at::randn({outputs, width}).to(type),
             bias = at::randn({outputs}).to(type);
        ASSERT_TRUE(cpu::supports_skinny(x, weight));
        auto expected = at::addmm(bias.to(at::kFloat), x.to(at::kFloat), weight.to(at::kFloat).t());
        EXPECT_LT(relative_difference(cpu::skinny_gemm(x, weight, bias), expected), tolerance_of(type))
            << rows << " x " << width << " x " << outputs;
      }
}

TEST(SmallMatmul, ARowDoesNotDependOnTheOthers) {
  for (auto type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (int64_t width : {40, 896, 2070})
      for (int64_t rows : {5, 16, 23, 32}) {
        auto x = at::randn({rows, width}).to(type), weight = at::randn({50, width}).to(type);
        auto together = cpu::skinny_gemm(x, weight, {});
        for (int64_t i = 0; i < rows; ++i)
          EXPECT_TRUE(at::equal(cpu::skinny_gemm(x.narrow(0, i, 1), weight, {}), together.narrow(0, i, 1)))
              << type << ", row " << i << " of " << rows;
      }
}

TEST(SmallMatmul, EveryHalfIsWidenedExactly) {
  auto halves = at::arange(65536, at::TensorOptions(at::kInt)).to(at::kShort).view(at::kHalf).view({4096, 16});
  auto halves_alone = halves.index({(halves == halves).logical_and(halves.abs() < INFINITY).all(1)});
  for (int64_t column : {0, 7, 15}) {
    auto unit = at::zeros({1, 16}, at::TensorOptions(at::kFloat));
    unit.select(1, column).fill_(1);
    auto y = cpu::skinny_gemm(unit.to(at::kHalf), halves_alone.contiguous(), {});
    EXPECT_TRUE(at::equal(y.select(0, 0), halves_alone.select(1, column))) << column;
  }
  auto infinite = at::full({1, 16}, INFINITY, at::TensorOptions(at::kHalf));
  EXPECT_TRUE(std::isinf(cpu::skinny_gemm(at::ones({1, 16}, at::kHalf), infinite, {}).item<float>()));
  EXPECT_TRUE(std::isnan(cpu::skinny_gemm(at::ones({1, 16}, at::kHalf), infinite - infinite, {}).item<float>()));
}

TEST(QuantizedLinear, ARowDoesNotDependOnTheOthers) {
  auto x = at::randn({11, 928}), weight = at::randn({51, 928});
  for (int bits : {8, 4}) {
    auto rounded = quantize_weight(weight, bits);
    auto together = quantized_linear(x, *rounded, {});
    for (int64_t i = 0; i < 11; ++i)
      EXPECT_TRUE(at::equal(quantized_linear(x.narrow(0, i, 1), *rounded, {}), together.narrow(0, i, 1)))
          << bits << " bits, row " << i;
    auto many = at::randn({70, 928}), of_many = quantized_linear(many, *rounded, {});
    EXPECT_TRUE(at::equal(quantized_linear(many.narrow(0, 29, 41), *rounded, {}), of_many.narrow(0, 29, 41)))
        << bits << " bits, fewer of many";
    for (int64_t i = 0; i < 40; ++i) {
      const auto alone = quantized_linear(many.narrow(0, i, 1), *rounded, {}), among = of_many.narrow(0, i, 1);
      EXPECT_LT(relative_difference(alone, among), 1e-6) << bits << " bits, row " << i << " of many";
      EXPECT_TRUE(!cpu::interleaves_outputs() || at::equal(alone, among)) << bits << " bits, row " << i << " of many";
    }
  }
}

// One output, and counts around those of a panel and of a block of them; several slabs of inputs.
TEST(QuantizedLinear, AnyNumberOfOutputsOfManyRows) {
  for (auto [rows, width, outputs] :
       {std::tuple<int64_t, int64_t, int64_t>{33, 64, 1}, {37, 2080, 33}, {600, 96, 65}, {48, 1056, 420}})
    for (auto type : {at::kFloat, at::kBFloat16})
      for (int bits : {8, 4}) {
        auto rounded = quantize_weight(at::randn({outputs, width}), bits);
        auto x = at::randn({rows, width}).to(type), bias = at::randn({outputs}).to(type);
        auto inputs = cpu::fake_quantize_input(x, *rounded), weight = dequantized(*rounded);
        auto y = quantized_linear(x, *rounded, bias);
        EXPECT_EQ(y.scalar_type(), type);
        EXPECT_LT(relative_difference(y, at::addmm(bias.to(at::kFloat), inputs, weight.t())), tolerance_of(type))
            << bits << " bits, " << rows << " x " << width << " x " << outputs;
        if (cpu::interleaves_outputs()) continue;
        EXPECT_LT(relative_difference(cpu::unpacked_matmul(x, *rounded, bias),
                                      at::addmm(bias.to(at::kFloat), x.to(at::kFloat), weight.t())),
                  tolerance_of(type))
            << bits << " bits by way of floats, " << rows << " x " << width << " x " << outputs;
      }
}

TEST(InterleavedWeights, AreSeparatedAgainAndLeaveTheRestInPlace) {
  auto codes = at::arange(7 * 6, at::kInt).view({7, 6}), scales = at::arange(7 * 64, at::kFloat).view({7, 2, 2, 16});
  auto interleaved = cpu::interleave_codes(codes), by_group = cpu::interleave_scales(scales);
  EXPECT_TRUE(at::equal(interleaved.view({-1}).narrow(0, 0, 4), codes.select(1, 0).narrow(0, 0, 4))) << "a word of four outputs";
  EXPECT_TRUE(at::equal(by_group.view({-1}).narrow(0, 4, 4), scales.select(2, 1).flatten(1).select(1, 0).narrow(0, 0, 4)))
      << "behind four scales their lowest values";
  EXPECT_TRUE(at::equal(interleaved.narrow(0, 4, 3), codes.narrow(0, 4, 3)));
  EXPECT_TRUE(at::equal(by_group.narrow(0, 4, 3), scales.narrow(0, 4, 3)));
  EXPECT_TRUE(at::equal(cpu::separate_codes(interleaved), codes));
  EXPECT_TRUE(at::equal(cpu::separate_scales(by_group), scales));
}

class QuantizedWidths : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(OfBlocksAndParts, QuantizedWidths, testing::Values(64, 128, 160, 544, 896, 1088));

TEST_P(QuantizedWidths, IsCloseToTheProductItRounds) {
  int64_t width = GetParam();
  auto weight = at::randn({67, width}), x = at::randn({5, width}), bias = at::randn({67});
  auto expected = at::addmm(bias, x, weight.t());
  for (auto [bits, tolerance] : {std::pair{8, 0.02}, {4, 0.2}}) {
    auto rounded = quantize_weight(weight, bits);
    EXPECT_LT(relative_difference(quantized_linear(x, *rounded, bias), expected), tolerance) << bits;
    auto same = at::addmm(bias, cpu::fake_quantize_input(x, *rounded), dequantized(*rounded).t());
    EXPECT_LT(relative_difference(quantized_linear(x, *rounded, bias), same), 1e-5) << bits << ", few rows";
    auto many = at::randn({70, width});
    EXPECT_LT(relative_difference(quantized_linear(many, *rounded, {}),
                                  at::mm(cpu::fake_quantize_input(many, *rounded), dequantized(*rounded).t())),
              1e-5)
        << bits << ", many rows";
    EXPECT_LT(relative_difference(cpu::fake_quantize_input(x, *rounded), x), 0.01) << bits << ", inputs";
    EXPECT_LT(relative_difference(dequantized(*rounded), weight), tolerance) << bits;
  }
  EXPECT_THROW(quantize_weight(weight, 3), UserError);
  EXPECT_THROW(quantize_weight(at::randn({4, 72}), 4), UserError);
}

TEST(QuantizedLinear, WhatIsNotFiniteShows) {
  for (int bits : {8, 4}) {
    auto rounded = quantize_weight(at::randn({4, 64}), bits);
    for (float odd : {NAN, INFINITY})
      for (int64_t rows : {1, 40}) {
        auto x = at::randn({rows, 64});
        x[rows - 1][9] = odd;
        auto finite = quantized_linear(x, *rounded, {}).isfinite();
        EXPECT_FALSE(finite[rows - 1].any().item<bool>()) << bits << " bits, " << odd << ", " << rows << " rows";
        EXPECT_TRUE(finite.narrow(0, 0, rows - 1).all().item<bool>()) << bits << " bits, " << odd << ", " << rows << " rows";
      }
  }
}

// A machine runs one of the two: both are held against the weights they stand for.
TEST(EightBitKernels, AgreeWithTheUnpackedWeight) {
  constexpr int64_t kRows = 5, kWidth = 640, kOutputs = 37;
  auto rounded = quantize_weight(at::randn({kOutputs, kWidth}), 8);
  auto x = at::randn({kRows, kWidth}), expected = x.mm(dequantized(*rounded).t()), y = at::empty({kRows, kOutputs});
  auto row_codes = cpu::interleaves_outputs() ? cpu::separate_codes(rounded->codes) : rounded->codes;
  const cpu::SkinnyShape shape{kRows, kWidth, kOutputs, kOutputs};
  std::vector<float> sums(kRows * cpu::padded_groups(kWidth)), input_scales(x.numel() / cpu::kSplitGroup);
  cpu::group_sums(x.const_data_ptr<float>(), sums.data(), kRows, kWidth);
  cpu::packed_outputs_int8(x.const_data_ptr<float>(), sums.data(), row_codes.const_data_ptr<int32_t>(),
                           rounded->scales.const_data_ptr<float>(), y.mutable_data_ptr<float>(), shape);
  EXPECT_LT(relative_difference(y, expected), 1e-5) << "by way of floats";
  if (!cpu::has_int16_dot()) GTEST_SKIP() << "this processor has no sums of products of 16-bit numbers";
  std::vector<int32_t> words(x.numel() / 2);
  const cpu::Int16Activations inputs{words.data(), input_scales.data()};
  cpu::quantize_int16(x.const_data_ptr<float>(), inputs, kRows, kWidth);
  auto as_read = at::empty_like(x);
  cpu::dequantize_int16(inputs, as_read.mutable_data_ptr<float>(), kRows, kWidth);
  EXPECT_LT(relative_difference(as_read, x), 1e-4);
  cpu::split_outputs_int8(inputs, rounded->codes.const_data_ptr<int32_t>(), rounded->scales.const_data_ptr<float>(),
                          y.mutable_data_ptr<float>(), shape);
  EXPECT_LT(relative_difference(y, as_read.mm(dequantized(*rounded).t())), 1e-5) << "by products of 16-bit numbers";
}

TEST(FourBitKernels, AgreeWithTheUnpackedWeight) {
  constexpr int64_t kRows = 5, kWidth = 640, kOutputs = 37;
  auto rounded = quantize_weight(at::randn({kOutputs, kWidth}), 4);
  auto x = at::randn({kRows, kWidth}), expected = x.mm(dequantized(*rounded).t()), y = at::empty({kRows, kOutputs});
  const bool interleaved = cpu::interleaves_outputs();
  auto row_codes = interleaved ? cpu::separate_codes(rounded->codes) : rounded->codes,
       row_scales = interleaved ? cpu::separate_scales(rounded->scales) : rounded->scales;
  const cpu::SkinnyShape shape{kRows, kWidth, kOutputs, kOutputs};
  std::vector<float> ordered(x.numel()), sums(kRows * cpu::padded_groups(kWidth)), input_scales(x.numel() / 8);
  cpu::order_by_fields(x.const_data_ptr<float>(), ordered.data(), x.numel());
  cpu::group_sums(x.const_data_ptr<float>(), sums.data(), kRows, kWidth);
  cpu::packed_outputs_int4(ordered.data(), sums.data(), row_codes.const_data_ptr<int32_t>(),
                           row_scales.const_data_ptr<c10::BFloat16>(), y.mutable_data_ptr<float>(), shape);
  EXPECT_LT(relative_difference(y, expected), 1e-5) << "by way of floats";
  if (!cpu::has_int8_dot()) GTEST_SKIP() << "this processor has no sums of products of bytes";
  std::vector<int8_t> bytes(x.numel());
  const cpu::QuantizedActivations inputs{bytes.data(), input_scales.data(), sums.data()};
  cpu::quantize_activations(x.const_data_ptr<float>(), inputs, kRows, kWidth);
  cpu::int8_dot_int4_weights(inputs, rounded->codes.const_data_ptr<int32_t>(), rounded->scales.const_data_ptr<c10::BFloat16>(),
                             y.mutable_data_ptr<float>(), shape);
  EXPECT_LT(relative_difference(y, expected), 0.01) << "by products of bytes";
}

}  // namespace
}  // namespace hone::ops
