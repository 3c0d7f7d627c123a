#include "hone/ops/fused_operators.h"

#include "hone/device/autograd.h"
#include "hone/ops/attention/rope.h"
#include "hone/ops/linear/float8_linear.h"
#include "hone/ops/linear/swiglu_linear.h"
#include "hone/ops/loss/linear_cross_entropy.h"
#include "hone/ops/rms_norm.h"
#include "hone/ops/swiglu.h"
#include "ops/ops_testing.h"

namespace hone::ops {
namespace {

// The name of the node that computed a value: a fused operator's own, or of the last plain operation.
std::string node_of(const Tensor& y) { return y.grad_fn() ? y.grad_fn()->name() : "none"; }

class Switches : public testing::Test {
 protected:
  void SetUp() override { at::manual_seed(2); }
  void TearDown() override { fused_operators() = {}; }
  Tensor leaf(std::initializer_list<int64_t> shape) { return random(shape).requires_grad_(); }

  void expect_switched(bool FusedOperators::*which, const std::function<Tensor()>& compute) {
    auto fused = compute();
    fused_operators().*which = false;
    auto plain = compute();
    EXPECT_NE(node_of(fused), node_of(plain));
    EXPECT_LT(relative_difference(fused, plain), 2e-5);
    fused_operators() = {};
    EXPECT_EQ(node_of(compute()), node_of(fused));
  }
};

TEST_F(Switches, RmsNorm) {
  auto x = leaf({5, 32}), weight = leaf({32});
  expect_switched(&FusedOperators::rms_norm, [&] { return rms_norm(x, weight, 1e-6); });
}

TEST_F(Switches, Rope) {
  auto x = leaf({6, 32});
  auto table = rope_table(at::arange(6), at::rand({8}));
  expect_switched(&FusedOperators::rope, [&] { return rope(x, table); });
}

TEST_F(Switches, Swiglu) {
  auto gate = leaf({5, 32}), up = leaf({5, 32}), weight = leaf({16, 32});
  expect_switched(&FusedOperators::swiglu, [&] { return swiglu(gate, up); });
  expect_switched(&FusedOperators::swiglu, [&] { return swiglu_linear(gate, up, weight, {}, {}, true); });
}

TEST_F(Switches, CrossEntropy) {
  auto hidden = leaf({9, 16}), weight = leaf({40, 16});
  auto targets = at::tensor({1, 5, -100, 7, 39, 0, -100, 2, 3}, at::kLong);
  const auto loss = [&](bool linear, bool whole) {
    fused_operators().linear_cross_entropy = linear, fused_operators().cross_entropy = whole;
    auto sum = linear_cross_entropy(hidden, weight, {}, targets).sum;
    auto grad = torch::autograd::grad({sum}, {hidden})[0];
    return std::tuple{sum, grad, node_of(sum)};
  };
  auto [fused, fused_grad, fused_node] = loss(true, true);
  auto [whole, whole_grad, whole_node] = loss(false, true);
  auto [plain, plain_grad, plain_node] = loss(false, false);
  EXPECT_EQ(fused_node, whole_node);
  EXPECT_NE(fused_node, plain_node);
  for (const auto& [a, b] :
       {std::pair{whole, plain}, std::pair{fused, plain}, std::pair{whole_grad, plain_grad}, std::pair{fused_grad, plain_grad}})
    EXPECT_LT(relative_difference(a, b), 2e-5);
}

TEST(Float8, RoundingsAreThoseOfTheNumberTypes) {
  at::manual_seed(3);
  for (auto [format, type] : {std::pair{kE4m3, at::kFloat8_e4m3fn}, std::pair{kE5m2, at::kFloat8_e5m2}}) {
    auto edges = at::pow(2.0, at::arange(-24, 17).to(at::kFloat));
    auto values = at::cat({at::randn({20000}) * 100, at::randn({20000}) * 1e-2, at::randn({5000}) * 1e-6, edges,
                           edges * 0.99999994, edges * 1.0000001, edges * 1.0625, edges * 1.125, edges * 1.1875, at::zeros({1})});
    values = at::cat({values, -values}).clamp(-format.largest, format.largest);
    EXPECT_TRUE(at::equal(rounded_to(values, format), values.to(type).to(at::kFloat)));
  }
}

TEST(Float8, ProductsAndGradientsAreThoseOfRoundedTensors) {
  at::manual_seed(4);
  auto x = random({21, 32}).requires_grad_(), weight = random({48, 32}).requires_grad_(), bias = random({48}).requires_grad_(),
       dy = random({21, 48});
  float8_linear(x, weight, bias).backward(dy);
  const auto rounded = [](const Tensor& values, const Float8Format& format) {
    auto scale = format.largest / values.abs().max();
    return rounded_to(values * scale, format) / scale;
  };
  at::NoGradGuard no_grad;
  auto x8 = rounded(x, kE4m3), w8 = rounded(weight, kE4m3), dy8 = rounded(dy, kE5m2);
  EXPECT_LT(relative_difference(float8_linear(x, weight, bias), at::linear(x8, w8, bias)), 1e-6);
  EXPECT_LT(relative_difference(x.grad(), dy8.mm(w8)), 1e-6);
  EXPECT_LT(relative_difference(weight.grad(), dy8.t().mm(x8)), 1e-6);
  EXPECT_LT(relative_difference(bias.grad(), dy.sum(0)), 1e-6);
  EXPECT_GT(relative_difference(x.grad(), dy.mm(weight)), 1e-3) << "8 bits must show";
}

}  // namespace
}  // namespace hone::ops
