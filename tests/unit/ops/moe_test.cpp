#include "hone/ops/moe/moe.h"

#include "hone/ops/moe/moe_permute.h"
#include "ops/ops_testing.h"

namespace hone::ops {
namespace {

constexpr int64_t kExperts = 5, kHidden = 16, kInner = 12, kRank = 3;

// Experts that nobody chooses, one that everybody does, one token twice to none.
TopKRouting uneven_choice() {
  auto experts = at::tensor({1, 3, 3, 0, 3, 1, 3, 4, 0, 3, 3, 1}, at::kLong).view({6, 2});
  return {experts, at::tensor({.7F, .3F, .5F, .5F, .9F, .1F, .2F, .8F, .4F, .6F, .6F, .4F}).view({6, 2})};
}

TensorList expert_tensors(at::ScalarType dtype) {
  return {random({6, kHidden}, dtype),
          random({kExperts, 2 * kInner, kHidden}, dtype) * 0.3,
          random({kExperts, kHidden, kInner}, dtype) * 0.3,
          random({kExperts * kRank, kHidden}),
          random({2 * kInner, kRank * kExperts}) * 0.3,
          random({kExperts * kRank, kInner}),
          random({kHidden, kRank * kExperts}) * 0.3};
}

// Weights alone, or with an update on both.
template <class Mlp>
Operator mixture(Mlp mlp, bool adapted) {
  return [=](const TensorList& in) {
    std::vector<LoraWeights> on_gate_up, on_down;
    if (adapted) {
      on_gate_up.push_back({.a = in[3], .b = in[4], .scale = 0.5});
      on_down.push_back({.a = in[5], .b = in[6], .scale = 2});
    }
    return mlp(in[0], uneven_choice(), {in[1], on_gate_up}, {in[2], on_down});
  };
}

TEST(Experts, GroupedComputationIsTheLoopOverExperts) {
  for (bool adapted : {false, true})
    for (auto dtype : kTypes) {
      SCOPED_TRACE(fmt::format("{} {}", c10::toString(dtype), adapted));
      at::manual_seed(3);
      auto inputs = expert_tensors(dtype);
      if (!adapted) inputs.resize(3);
      expect_same(mixture(expert_mlp, adapted), mixture(expert_mlp_plain, adapted), inputs, 2 * tolerance_of(dtype));
    }
}

TEST(Experts, GradientOfAnExpertThatNobodyChoseIsZero) {
  auto inputs = expert_tensors(at::kFloat);
  for (auto& tensor : inputs) tensor.requires_grad_();
  mixture(expert_mlp, false)(inputs).sum().backward();
  EXPECT_EQ(inputs[1].grad()[2].abs().max().item<double>(), 0);
  EXPECT_GT(inputs[1].grad()[3].abs().max().item<double>(), 0);
}

// libtorch's grouped product for bfloat16, one product per expert for float32.
TEST(Experts, GpuComputesTheLoopOverExperts) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no NVIDIA GPU";
  for (auto dtype : {at::kFloat, at::kBFloat16}) {
    SCOPED_TRACE(c10::toString(dtype));
    at::manual_seed(3);
    constexpr int64_t kHere = 64, kMany = 8;
    auto put = [&](std::initializer_list<int64_t> shape) { return (random(shape) * 0.3).to(at::kCUDA, dtype); };
    auto choice = route_top_k(random({40, kMany}).to(at::kCUDA), 2, true);
    auto run = [&](auto mlp) {
      return [=](const TensorList& in) {
        std::vector<LoraWeights> on_gate_up{{.a = in[3], .b = in[4], .scale = 0.5}};
        return mlp(in[0], choice, {in[1], on_gate_up}, {in[2], {}}).to(at::kCPU);
      };
    };
    expect_same(run(expert_mlp), run(expert_mlp_plain),
                {put({40, kHere}), put({kMany, 2 * kHere, kHere}), put({kMany, kHere, kHere}), put({kMany * 8, kHere}),
                 put({2 * kHere, 8 * kMany})},
                2 * tolerance_of(dtype));
  }
}

TEST(Experts, WeightsOfChosenExpertsSumToOneWhereAsked) {
  auto logits = at::tensor({0.F, 2.F, 1.F, -1.F}).unsqueeze(0);
  auto plain = route_top_k(logits, 2, false), normalized = route_top_k(logits, 2, true);
  EXPECT_TRUE(at::equal(plain.experts_tk, at::tensor({1, 2}, at::kLong).unsqueeze(0)));
  EXPECT_TRUE(at::allclose(plain.weights_tk, at::softmax(logits, -1).index_select(1, at::tensor({1, 2}, at::kLong))));
  EXPECT_NEAR(normalized.weights_tk.sum().item<double>(), 1, 1e-6);
}

// Replayed choices count by the router's own logits, which get gradients as if it had chosen them.
TEST(Experts, ReplayedChoicesAreThoseOfTheRouterThatMadeThem) {
  for (bool normalized : {false, true}) {
    at::manual_seed(5);
    auto logits_te = random({6, kExperts}), again_te = logits_te.clone();
    logits_te.requires_grad_(), again_te.requires_grad_();
    const auto chosen = route_top_k(logits_te, 2, normalized);
    auto experts_tk = chosen.experts_tk.clone();
    experts_tk[1].fill_(-1);  // the router chooses
    const auto replayed = route_to(again_te, experts_tk, normalized);
    EXPECT_TRUE(at::equal(replayed.experts_tk, chosen.experts_tk));
    EXPECT_TRUE(at::allclose(replayed.weights_tk, chosen.weights_tk, 1e-6));
    chosen.weights_tk.square().sum().backward(), replayed.weights_tk.square().sum().backward();
    EXPECT_TRUE(at::allclose(logits_te.grad(), again_te.grad(), 1e-5, 1e-7));
    const auto others_tk = (chosen.experts_tk + 1).remainder(kExperts);
    EXPECT_TRUE(at::equal(route_to(logits_te, others_tk, normalized).experts_tk, others_tk));
  }
}

// Between experts that are equally likely, too.
TEST(Experts, RowsThatAreNotReplayedAreThoseOfAnOrdinaryPass) {
  for (auto device : {at::kCPU, at::kCUDA}) {
    if (device == at::kCUDA && !at::hasCUDA()) continue;
    const auto logits_te = at::tensor({0.F, 1.F, 0.F, 1.F, 1.F, 0.F, 1.F, 0.F}).repeat({5, 1}).to(device);
    auto routed_tk = at::tensor({5, 0, 2}, at::kLong).repeat({5, 1}).to(device);
    const auto replayed_tk = routed_tk.clone(), own_tk = route_top_k(logits_te, 3, true).experts_tk;
    routed_tk.slice(0, 2).fill_(-1);
    const auto found_tk = route_to(logits_te, routed_tk, true).experts_tk;
    EXPECT_TRUE(at::equal(found_tk.slice(0, 0, 2), replayed_tk.slice(0, 0, 2)));
    EXPECT_TRUE(at::equal(found_tk.slice(0, 2), own_tk.slice(0, 2)));
    EXPECT_TRUE(logits_te.gather(1, own_tk).eq(1).all().item<bool>());
  }
}

TEST(Experts, ChangeOfAnAdapterIsWhatItAddsToTheProduct) {
  at::manual_seed(5);
  auto in = expert_tensors(at::kFloat);
  std::vector<LoraWeights> adapters{{.a = in[3], .b = in[4], .scale = 0.5}};
  auto merged = in[1] + expert_lora_delta(adapters[0], kExperts);
  auto choice = uneven_choice();
  EXPECT_LT(relative_difference(expert_mlp(in[0], choice, {in[1], adapters}, {in[2], {}}),
                                expert_mlp(in[0], choice, {merged, {}}, {in[2], {}})),
            1e-5);
}

}  // namespace
}  // namespace hone::ops
