#include "hone/ops/cpu/gemm/amx_bf16x6_gemm.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "hone/ops/cpu/gemm/amx_gemm.h"
#include "hone/ops/cpu/gemm/skinny_gemm.h"
#include "ops/ops_testing.h"

namespace hone::ops {
namespace {

class FloatUnit : public testing::Test {
 protected:
  void SetUp() override {
    if (!cpu::has_amx()) GTEST_SKIP() << "this processor has no matrix unit";
  }
};

Tensor by_unit(const Tensor& x, const Tensor& weight) {
  const int64_t rows = x.size(0), width = x.size(1), outputs = weight.size(0);
  auto parts = at::empty({cpu::split_size(rows, width)}, at::kBFloat16), y = at::full({rows, outputs}, NAN);
  cpu::pack_bf16x3(x.const_data_ptr<float>(), parts.mutable_data_ptr<c10::BFloat16>(), rows, width);
  cpu::amx_outputs(parts.const_data_ptr<c10::BFloat16>(), weight.const_data_ptr<float>(), y.mutable_data_ptr<float>(),
                   {rows, width, outputs, outputs});
  return y;
}

double furthest(const Tensor& y, const Tensor& exact) { return (y.to(at::kDouble) - exact).abs().max().item<double>(); }

// Numbers of one size, and of sizes from 1e-12 to 1e12 whose products are of all sizes too.
TEST_F(FloatUnit, RoundsAsFloatsDo) {
  at::manual_seed(1);
  for (int64_t width : {32, 896, 4864})
    for (bool spread : {false, true}) {
      auto x = at::randn({16, width}), weight = at::randn({48, width});
      if (spread) x *= at::pow(10.0, at::randint(-12, 13, {width})), weight *= at::pow(10.0, at::randint(-12, 13, {width}));
      x = x.to(at::kFloat), weight = weight.to(at::kFloat);
      auto exact = at::mm(x.to(at::kDouble), weight.to(at::kDouble).t());
      EXPECT_LT(furthest(by_unit(x, weight), exact), 3 * furthest(at::mm(x, weight.t()), exact))
          << width << (spread ? ", spread" : "");
    }
}

TEST_F(FloatUnit, EveryNumberOfRowsAndOutputs) {
  auto x = at::randn({32, 96}), weight = at::randn({67, 96}), expected = at::mm(x, weight.t());
  for (int64_t rows = 1; rows <= 32; ++rows)
    for (int64_t outputs : {1, 15, 16, 17, 32, 33, 67}) {
      auto y = by_unit(x.narrow(0, 0, rows), weight.narrow(0, 0, outputs));
      EXPECT_LT(relative_difference(y, expected.narrow(0, 0, rows).narrow(1, 0, outputs)), 1e-6)
          << rows << " rows, " << outputs << " outputs";
    }
}

TEST_F(FloatUnit, ARowDependsOnNothingElse) {
  auto x = at::randn({32, 928}), weight = at::randn({45, 928}), together = by_unit(x, weight);
  for (int64_t rows : {1, 7, 16, 17, 29})
    EXPECT_TRUE(at::equal(by_unit(x.narrow(0, 0, rows), weight), together.narrow(0, 0, rows))) << rows << " rows";
  EXPECT_TRUE(at::equal(by_unit(x.narrow(0, 31, 1), weight), together.narrow(0, 31, 1)));
  EXPECT_TRUE(at::equal(by_unit(x, weight.narrow(0, 19, 26)), together.narrow(1, 19, 26)))
      << "other outputs, as another number of threads shares them out";
}

TEST_F(FloatUnit, WholeNumbersAreExact) {
  auto x = at::randint(-2000, 2000, {5, 64}).to(at::kFloat), weight = at::randint(-60, 60, {20, 64}).to(at::kFloat);
  EXPECT_TRUE(at::equal(by_unit(x, weight), at::mm(x, weight.t())));
}

TEST_F(FloatUnit, WhatIsNotFiniteShows) {
  for (float odd : {NAN, INFINITY, -INFINITY}) {
    auto x = at::randn({3, 64}), weight = at::randn({4, 64});
    x[1][9] = odd;
    EXPECT_FALSE(by_unit(x, weight)[1].isfinite().any().item<bool>()) << odd;
    EXPECT_TRUE(by_unit(x, weight)[0].isfinite().all().item<bool>()) << odd;
    EXPECT_FALSE(by_unit(weight, x).select(1, 1).isfinite().any().item<bool>()) << odd;
  }
}

// Where a unit takes over, the lanes serve other processors: they are held to the same here.
TEST(SmallMatmulLanes, EveryNumberOfRowsAndOutputs) {
  at::manual_seed(5);
  auto x = at::randn({32, 100}), weight = at::randn({29, 100}), expected = at::mm(x, weight.t());
  const double largest = expected.abs().max().item<double>();  // a single output may be a sum that cancels
  for (int64_t rows = 1; rows <= 32; ++rows)
    for (int64_t outputs : {1, 5, 6, 7, 29}) {
      auto packed = at::empty({rows * cpu::packed_row(100)}), y = at::full({rows, outputs}, NAN);
      cpu::pack_rows(x.const_data_ptr<float>(), packed.mutable_data_ptr<float>(), rows, 100);
      cpu::small_outputs(packed.const_data_ptr<float>(), weight.const_data_ptr<float>(), y.mutable_data_ptr<float>(),
                         {rows, 100, outputs, outputs});
      EXPECT_LT((y - expected.narrow(0, 0, rows).narrow(1, 0, outputs)).abs().max().item<double>() / largest, 1e-6)
          << rows << " rows, " << outputs << " outputs";
    }
}

}  // namespace
}  // namespace hone::ops
