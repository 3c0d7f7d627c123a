#include "hone/ops/cpu/small_matmul.h"

#include <gtest/gtest.h>

#include "hone/base/error.h"
#include "hone/ops/quantized_linear.h"
#include "ops/ops_testing.h"

namespace hone::ops {
namespace {

TEST(SmallMatmul, EqualsTheProductInEveryTypeAndShape) {
  for (auto type : {at::kFloat, at::kBFloat16})
    for (int64_t rows : {1, 2, 5, 6, 7, 13, 16, 32})
      for (auto [width, outputs] : {std::pair<int64_t, int64_t>{64, 7}, {40, 130}, {896, 33}}) {
        auto x = at::randn({rows, width}).to(type), weight = at::randn({outputs, width}).to(type), bias = at::randn({outputs}).to(type);
        ASSERT_TRUE(cpu::serves_small(x, weight));
        auto expected = at::addmm(bias.to(at::kFloat), x.to(at::kFloat), weight.to(at::kFloat).t());
        EXPECT_LT(relative_difference(cpu::small_matmul(x, weight, bias), expected), tolerance_of(type)) << rows << " x " << width << " x " << outputs;
      }
}

TEST(SmallMatmul, ARowDoesNotDependOnTheOthers) {
  auto x = at::randn({23, 896}), weight = at::randn({50, 896});
  auto together = cpu::small_matmul(x, weight, {});
  for (int64_t i = 0; i < 23; ++i) EXPECT_TRUE(at::equal(cpu::small_matmul(x.narrow(0, i, 1), weight, {}), together.narrow(0, i, 1))) << i;
}

TEST(QuantizedLinear, IsCloseToTheProductItRounds) {
  auto weight = at::randn({64, 128}), x = at::randn({5, 128}), bias = at::randn({64});
  auto expected = at::addmm(bias, x, weight.t());
  for (auto [bits, tolerance] : {std::pair{8, 0.01}, {4, 0.12}}) {
    auto rounded = quantize_weight(weight, bits);
    EXPECT_LT(relative_difference(quantized_linear(x, *rounded, bias), expected), tolerance) << bits;
    auto same = at::addmm(bias, x, dequantized(*rounded).t());
    EXPECT_LT(relative_difference(quantized_linear(x, *rounded, bias), same), 1e-5) << bits << ", few rows";
    auto many = at::randn({70, 128});
    EXPECT_LT(relative_difference(quantized_linear(many, *rounded, {}), at::mm(many, dequantized(*rounded).t())), 1e-5) << bits << ", many rows";
    EXPECT_LT(relative_difference(dequantized(*rounded), weight), tolerance) << bits;
  }
  EXPECT_THROW(quantize_weight(weight, 3), UserError);
}

}  // namespace
}  // namespace hone::ops
