#include "hone/ops/linear/lora_linear.h"

#include "hone/ops/linear/swiglu_linear.h"
#include "ops/ops_testing.h"
#include "ops/upcast_testing.h"

namespace hone::ops {
namespace {

struct Case {
  std::string name;
  int64_t tokens, in, out, rank;
  int adapters;
  at::ScalarType base = at::kFloat, adapter = at::kFloat;
  bool bias = true, dora = false;
};

const Case kCases[] = {
    {"no_adapter", 5, 33, 7, 4, 0},
    {"one", 33, 64, 48, 8, 1},
    {"two", 7, 17, 9, 3, 2, at::kFloat, at::kFloat, false},
    {"one_token", 1, 16, 16, 8, 1},
    {"bf16_base", 19, 64, 32, 8, 1, at::kBFloat16, at::kFloat},
    {"bf16_base_of_many", 75, 64, 50, 8, 1, at::kBFloat16, at::kFloat},
    {"half_base_of_many", 75, 64, 50, 8, 1, at::kHalf, at::kFloat},
    {"two_on_bf16_of_many", 75, 64, 50, 3, 2, at::kBFloat16, at::kFloat},
    {"two_of_many", 75, 64, 50, 3, 2},
    {"all_bf16", 19, 64, 32, 8, 2, at::kBFloat16, at::kBFloat16},
    {"dora", 6, 24, 10, 4, 1, at::kFloat, at::kFloat, true, true},
};

class LoraLinear : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { at::manual_seed(3); }

  TensorList inputs() const {
    const auto& c = GetParam();
    TensorList list{random({c.tokens, c.in}, c.base), random({c.out, c.in}, c.base), random({c.out}, c.base)};
    for (int i = 0; i < c.adapters; ++i) {
      list.push_back(random({c.rank, c.in}, c.adapter));
      list.push_back(random({c.out, c.rank}, c.adapter));
      if (c.dora) list.push_back(random({c.out}, c.adapter).abs());
    }
    if (!c.bias) list.erase(list.begin() + 2);
    return list;
  }
  std::vector<LoraWeights> adapters(const TensorList& in) const {
    const auto& c = GetParam();
    std::vector<LoraWeights> list;
    size_t next = c.bias ? 3 : 2;
    for (int i = 0; i < c.adapters; ++i) {
      LoraWeights adapter{.a = in[next], .b = in[next + 1], .scale = 0.5 + i};
      next += 2;
      if (c.dora) adapter.magnitude = in[next++];
      list.push_back(adapter);
    }
    return list;
  }
  Tensor bias(const TensorList& in) const { return GetParam().bias ? in[2] : Tensor(); }
  double tolerance() const { return tolerance_of(GetParam().base); }
};
INSTANTIATE_TEST_SUITE_P(Cases, LoraLinear, testing::ValuesIn(kCases), [](const auto& info) { return info.param.name; });

TEST_P(LoraLinear, MatchesItsDefinition) {
  expect_same([&](auto& in) { return lora_linear(in[0], in[1], bias(in), adapters(in), false); },
              [&](auto& in) { return lora_linear_plain(in[0], in[1], bias(in), adapters(in), false); }, inputs(), tolerance());
}

TEST_P(LoraLinear, AfterSwigluMatchesItsDefinition) {
  auto list = inputs();
  list.push_back(random({GetParam().tokens, GetParam().in}, GetParam().base));
  expect_same([&](auto& in) { return swiglu_linear(in[0], in.back(), in[1], bias(in), adapters(in), false); },
              [&](auto& in) { return swiglu_linear_plain(in[0], in.back(), in[1], bias(in), adapters(in), false); }, list,
              tolerance());
}

TEST_P(LoraLinear, WidenedWeightsGiveTheSame) {
  UpcastGuard upcast(true);
  expect_same([&](auto& in) { return lora_linear(in[0], in[1], bias(in), adapters(in), false); },
              [&](auto& in) { return lora_linear_plain(in[0], in[1], bias(in), adapters(in), false); }, inputs(), tolerance());
}

TEST(LoraLinearGradient, FrozenWeightGetsNone) {
  auto x = at::randn({4, 8}).requires_grad_(), weight = at::randn({6, 8});
  LoraWeights adapter{.a = at::randn({2, 8}).requires_grad_(), .b = at::randn({6, 2}).requires_grad_()};
  lora_linear(x, weight, {}, {adapter}, true).sum().backward();
  EXPECT_FALSE(weight.grad().defined());
  EXPECT_TRUE(adapter.a.grad().defined() && adapter.b.grad().defined() && x.grad().defined());
}

TEST(LoraLinearGradient, InactiveAdapterChangesNothing) {
  auto x = at::randn({4, 8}), weight = at::randn({6, 8});
  LoraWeights adapter{.a = at::randn({2, 8}), .b = at::randn({6, 2}), .active = false};
  EXPECT_TRUE(at::equal(lora_linear(x, weight, {}, {adapter}, true), lora_linear(x, weight, {}, {}, true)));
}

// With dropout the mask of the value must be the mask of the gradient: check against finite differences under one seed.
void expect_one_mask(int64_t tokens) {
  auto x = at::randn({tokens, 16}, at::kFloat).requires_grad_(), weight = at::zeros({5, 16});
  LoraWeights adapter{.a = at::randn({4, 16}).requires_grad_(), .b = at::randn({5, 4}), .scale = 2.0, .dropout = 0.5};
  auto value = [&](const Tensor& input) {
    at::manual_seed(11);
    return lora_linear(input, weight, {}, {adapter}, true);
  };
  value(x).sum().backward();
  auto direction = at::randn({tokens, 16});
  auto change = value((x + direction).detach()).sum() - value(x.detach()).sum();  // the layer is linear in x
  EXPECT_NEAR(change.item<float>(), (x.grad() * direction).sum().item<float>(), 1e-3 * static_cast<double>(tokens));
  auto of_a = (adapter.a.grad() * adapter.a).sum().item<float>();  // and in A
  EXPECT_NEAR(of_a, value(x.detach()).sum().item<float>(), 1e-3 * static_cast<double>(tokens));
  EXPECT_FALSE(at::allclose(value(x), lora_linear(x, weight, {}, {adapter}, false)));
}

TEST(LoraLinearGradient, DropoutMaskIsSharedByValueAndGradient) {
  at::manual_seed(5);
  for (int64_t tokens : {3, 70}) expect_one_mask(tokens);
}

// The update of a 16-bit base is computed in float32 and rounded with the sum, once.
TEST(LoraLinearGradient, UpdatesAreRoundedOnce) {
  at::manual_seed(6);
  for (int64_t tokens : {7, 70}) {
    auto x = random({tokens, 48}, at::kBFloat16), weight = random({36, 48}, at::kBFloat16);
    LoraWeights adapter{.a = random({8, 48}), .b = random({36, 8}), .scale = 0.3};
    auto base = lora_linear(x, weight, {}, {}, false).to(at::kFloat);
    auto expected = base + 0.3 * at::mm(at::mm(x.to(at::kFloat), adapter.a.t()), adapter.b.t());
    auto found = lora_linear(x, weight, {}, {adapter}, false).to(at::kFloat);
    EXPECT_TRUE(at::allclose(found, expected, 0.0040, 1e-5)) << (found - expected).abs().max();  // half a unit in the last place
  }
}

}  // namespace
}  // namespace hone::ops
