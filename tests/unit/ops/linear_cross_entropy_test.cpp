#include "hone/ops/loss/linear_cross_entropy.h"

#include "ops/allocations_testing.h"
#include "ops/ops_testing.h"

namespace hone::ops {
namespace {

Tensor some_targets(int64_t tokens, int64_t vocabulary) {
  auto targets = at::randint(vocabulary, {tokens}, at::kLong);
  return targets.masked_fill(at::rand({tokens}) < 0.4, kIgnoredTarget);
}

class LinearCrossEntropy : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(9); }
  void compare(int64_t tokens, int64_t width, int64_t vocabulary, CrossEntropyOptions options) const {
    auto targets = some_targets(tokens, vocabulary);
    options.chunk_bytes = 1;  // the least chunk, so that several are summed
    auto loss = [&](auto& compute, auto& in) { return compute(in[0], in[1], Tensor(), targets, options).sum; };
    expect_same([&](auto& in) { return loss(linear_cross_entropy, in); },
                [&](auto& in) { return loss(linear_cross_entropy_plain, in); },
                {random({tokens, width}, GetParam()), random({vocabulary, width}, GetParam()) * 0.3}, tolerance_of(GetParam()));
    auto x = random({tokens, width}, GetParam()), w = random({vocabulary, width}, GetParam());
    auto found = linear_cross_entropy(x, w, {}, targets, options),
         expected = linear_cross_entropy_plain(x, w, {}, targets, options);
    EXPECT_EQ(found.correct.item<int64_t>(), expected.correct.item<int64_t>());
    EXPECT_EQ(found.count.item<int64_t>(), expected.count.item<int64_t>());
  }
};
INSTANTIATE_TEST_SUITE_P(Types, LinearCrossEntropy, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return c10::toString(info.param); });

TEST_P(LinearCrossEntropy, MatchesItsDefinition) {
  compare(70, 24, 101, {});
  compare(1, 16, 16, {});
  compare(40, 8, 5, {.label_smoothing = 0.1});
  compare(40, 8, 33, {.scale = 1 / 0.7});
  compare(50, 16, 33, {.weights_t = at::rand({50}), .label_smoothing = 0.2});
}

TEST(LinearCrossEntropyHead, AdaptersAndBiasGetTheirGradients) {
  at::manual_seed(2);
  auto targets = some_targets(60, 37);
  auto run = [&](auto& compute) {
    return [&](const TensorList& in) {
      CrossEntropyOptions options{.adapters = {{.a = in[3], .b = in[4], .scale = 0.7}}, .chunk_bytes = 1};
      return compute(in[0], in[1], in[2], targets, options).sum;
    };
  };
  expect_same(run(linear_cross_entropy), run(linear_cross_entropy_plain),
              {random({60, 12}), random({37, 12}), random({37}), random({3, 12}), random({37, 3})}, 2e-5);
}

// A frozen head's vocabulary goes by in tiles: several of them, a part at the end, slices, and blocks of rows of unequal size.
TEST(LinearCrossEntropyHead, FrozenHeadMatchesItsDefinition) {
  at::manual_seed(4);
  for (auto [tokens, width, vocabulary] : {std::tuple{170, 24, 2500}, {700, 300, 1100}, {3, 8, 1024}, {30, 13, 9001}}) {
    auto head = random({vocabulary, width}) * 0.5;
    auto targets = some_targets(tokens, vocabulary);
    for (double smoothing : {0.0, 0.1}) {
      CrossEntropyOptions options{.weights_t = at::rand({tokens}), .label_smoothing = smoothing, .scale = 1 - smoothing};
      auto run = [&](auto& compute) {
        return [&](const TensorList& in) { return compute(in[0], head, Tensor(), targets, options).sum; };
      };
      expect_same(run(linear_cross_entropy), run(linear_cross_entropy_plain), {random({tokens, width})}, 2e-5);
    }
  }
}

// Logits far below the peak, in its tile and in later ones, whose exponentials are clamped.
TEST(LinearCrossEntropyHead, FrozenHeadWithRemoteLogits) {
  at::manual_seed(6);
  const int64_t tokens = 90, width = 20, vocabulary = 5000;
  auto head = random({vocabulary, width}) * 0.5;
  head.select(1, 0).zero_();
  head.select(1, 0).narrow(0, 100, 300).fill_(-1);
  head.select(1, 0).narrow(0, 1500, 3500).fill_(-1);
  auto x = random({tokens, width});
  x.select(1, 0).fill_(200);
  auto targets = some_targets(tokens, vocabulary);
  auto run = [&](auto& compute) {
    return [&](const TensorList& in) { return compute(in[0], head, Tensor(), targets, CrossEntropyOptions{}).sum; };
  };
  expect_same(run(linear_cross_entropy), run(linear_cross_entropy_plain), {x}, 2e-5);
}

TEST(LinearCrossEntropyHead, TheFirstOfEqualLogitsIsThePrediction) {
  auto x = at::ones({1, 1}), head = at::zeros({9000, 1});
  for (int64_t place : {100, 130, 1500, 8999}) head[place] = 1;
  for (int64_t target : {100, 130, 1500, 8999, 7})
    EXPECT_EQ(linear_cross_entropy(x, head, {}, at::full({1}, target, at::kLong)).correct.item<int64_t>(), target == 100)
        << target;
}

TEST(LinearCrossEntropyHead, NoTargetAtAllIsZero) {
  auto x = at::randn({5, 8}).requires_grad_();
  auto loss = linear_cross_entropy(x, at::randn({11, 8}), {}, at::full({5}, kIgnoredTarget, at::kLong));
  loss.sum.backward();
  EXPECT_EQ(loss.sum.item<float>(), 0);
  EXPECT_EQ(x.grad().abs().max().item<float>(), 0);
}

TEST(LinearCrossEntropyHead, LargeLogitsStayFinite) {
  auto x = at::full({2, 1}, 1.0f), w = at::tensor({1e4f, -1e4f, 0.0f}).view({3, 1});
  auto loss = linear_cross_entropy(x, w, {}, at::tensor({0, 1}, at::kLong));
  EXPECT_NEAR(loss.sum.item<float>(), 2e4f, 1);
  EXPECT_EQ(loss.correct.item<int64_t>(), 1);
}

// The promise of this operator: at a vocabulary of 150,000 and 8,192 tokens less than 300 MB beside its inputs.
TEST(LinearCrossEntropyHead, PeakMemoryIsSmall) {
  auto x = at::randn({8192, 4}).requires_grad_();
  auto weight = at::randn({150000, 4});
  auto targets = at::randint(150000, {8192}, at::kLong);
  CountedAllocations allocations;
  linear_cross_entropy(x, weight, {}, targets).sum.backward();
  EXPECT_GE(allocations.peak(), x.numel() * 4);  // the gradient at least, or nothing was counted
  EXPECT_LT(allocations.peak(), 300'000'000);    // all logits would be 4.9 GB
}

}  // namespace
}  // namespace hone::ops
