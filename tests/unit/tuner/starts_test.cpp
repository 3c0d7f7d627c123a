#include <gmock/gmock.h>

#include "hone/base/error.h"
#include "hone/tuner/lora_ga.h"
#include "hone/tuner/lora_init.h"

namespace hone::tuner {
namespace {

double distance(const Tensor& a, const Tensor& b) { return (a - b).norm().item<double>(); }

TEST(Nf4, EveryBlockUsesSixteenValuesAndKeepsItsLargest) {
  at::manual_seed(1);
  const Tensor weight = at::randn({6, 50});  // 300 values: the last block is not full
  const Tensor rounded = rounded_to_nf4(weight);
  const Tensor block = rounded.flatten().slice(0, 64, 128);
  EXPECT_LE(std::get<0>(at::_unique(block)).numel(), 16);
  EXPECT_EQ(block.abs().max().item<float>(), weight.flatten().slice(0, 64, 128).abs().max().item<float>());
  EXPECT_TRUE(at::equal(rounded_to_nf4(rounded), rounded));
  EXPECT_TRUE(at::equal(rounded_to_nf4(at::zeros({3, 5})), at::zeros({3, 5})));
}

TEST(Loftq, PairGivesBackPartOfWhatRoundingTook) {
  at::manual_seed(2);
  const Tensor weight = at::randn({40, 24});
  for (const double scale : {1.0, 4.0}) {
    const LoraPair pair = loftq(weight, 4, scale, 4, 1);
    EXPECT_TRUE(at::equal(pair.residual, rounded_to_nf4(weight)));
    EXPECT_LT(distance(pair.residual + scale * pair.b.mm(pair.a), weight), 0.9 * distance(pair.residual, weight));
    const LoraPair better = loftq(weight, 4, scale, 4, 5);
    EXPECT_LT(distance(better.residual + scale * better.b.mm(better.a), weight),
              distance(pair.residual + scale * pair.b.mm(pair.a), weight));
  }
  EXPECT_LT(distance(rounded_to_int8(weight), weight), 0.1 * distance(rounded_to_nf4(weight), weight));
}

class LoraGa : public testing::Test {
 protected:
  LoraGa() {
    at::manual_seed(3);
    weight = at::randn({24, 16});
    // Far apart singular values: directions are known but for their signs.
    auto [u, s, vh] = at::linalg_svd(at::randn({24, 16}), false);
    left = u, right = vh;
    gradient = (u * at::pow(2.0, -at::arange(16))).mm(vh);
  }
  LoraPair start(LoraGaConfig config, double scale = 2.0) {
    auto generator = layer_generator("layer", 0);
    return lora_ga_init(weight, gradient, 3, scale, config, generator);
  }
  // |cosine| of every row of A with every right singular vector, and of B's columns with the left ones.
  std::vector<int64_t> rows_of(const LoraPair& pair) { return picks(at::mm(pair.a, right.t())); }
  std::vector<int64_t> columns_of(const LoraPair& pair) { return picks(at::mm(pair.b.t(), left)); }
  static std::vector<int64_t> picks(const Tensor& products) {
    const Tensor best = products.abs().argmax(1);
    return {best.const_data_ptr<int64_t>(), best.const_data_ptr<int64_t>() + best.numel()};
  }
  Tensor weight, gradient, left, right;
};

TEST_F(LoraGa, ModelComputesWhatItDid) {
  for (const char* scale : {"gd", "unit", "stable", "weights"}) {
    const LoraPair pair = start({.scale = scale});
    EXPECT_LT(distance(pair.residual + 2.0 * pair.b.mm(pair.a), weight), 1e-4) << scale;
    EXPECT_GT(distance(pair.residual, weight), 1e-2) << scale;
  }
}

TEST_F(LoraGa, DirectionsAreSharedOutByName) {
  using testing::ElementsAre;
  EXPECT_THAT(rows_of(start({.direction = "ArB2r"})), ElementsAre(0, 1, 2));
  EXPECT_THAT(columns_of(start({.direction = "ArB2r"})), ElementsAre(3, 4, 5));
  EXPECT_THAT(rows_of(start({.direction = "A2rBr"})), ElementsAre(3, 4, 5));
  EXPECT_THAT(columns_of(start({.direction = "ArBr"})), ElementsAre(0, 2, 4));
  EXPECT_THAT(rows_of(start({.direction = "ArBr"})), ElementsAre(1, 3, 5));
}

TEST_F(LoraGa, LengthsFollowTheScale) {
  const auto length = [](const LoraPair& pair) { return pair.a[0].norm().item<double>(); };
  EXPECT_NEAR(length(start({.scale = "unit"})), 1.0, 1e-5);
  EXPECT_NEAR(length(start({.scale = "gd"})), 0.5, 1e-5);
  EXPECT_NEAR(length(start({.scale = "stable", .gamma = 16})), std::pow(24.0, 0.25) / 4, 1e-5);
  const Tensor values = std::get<1>(at::linalg_svd(weight, false)).slice(0, 0, 3);
  EXPECT_NEAR(length(start({.scale = "weights"})), (values / 2.0).sqrt().mean().item<double>(), 1e-3);
}

TEST_F(LoraGa, RankNeedsTwiceAsManyDirections) {
  auto generator = layer_generator("layer", 0);
  EXPECT_THROW(lora_ga_init(weight, gradient, 9, 1.0, {}, generator), UserError);
}

}  // namespace
}  // namespace hone::tuner
