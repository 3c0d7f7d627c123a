#include "hone/optim/cpu_adam.h"

#include <gtest/gtest.h>

#include <limits>

namespace hone::optim {
namespace {

// Tensors of sizes with and without an end that fills no vector, as they are after some steps.
AdamUpdate example(int64_t step) {
  at::manual_seed(static_cast<uint64_t>(step));
  AdamUpdate u{.rate = 3e-3, .weight_decay = 0.1, .step = step};
  for (int64_t size : {1, 15, 16, 31, 1000, 70001}) {
    u.parameters.push_back(at::randn({size}));
    u.gradients.push_back(at::randn({size}).mul_(at::randn({size}).mul_(4).exp_()));  // over many orders of magnitude
    u.first.push_back(at::randn({size}).mul_(1e-2));
    u.second.push_back(at::randn({size}).mul_(8).exp_());
  }
  u.gradients[4].narrow(0, 0, 8).zero_(), u.second[4].narrow(0, 0, 4).zero_();
  u.second[4][20] = std::numeric_limits<float>::infinity();
  u.second[4][21] = std::numeric_limits<float>::denorm_min();
  return u;
}

AdamUpdate copy_of(const AdamUpdate& u) {
  auto copy = u;
  for (auto* tensors : {&copy.parameters, &copy.first, &copy.second})
    for (auto& tensor : *tensors) tensor = tensor.clone();
  return copy;
}

void expect_equal(const TensorList& ours, const TensorList& theirs, const char* what) {
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(ours[i].equal(theirs[i])) << what << " of tensor " << i;
}

TEST(CpuAdam, GivesLibtorchsBits) {
  for (double beta1 : {0.9, 0.3})
    for (int64_t step : {1, 2, 77, 30000}) {
      const AdamConfig config{.beta1 = beta1, .beta2 = 0.95, .epsilon = 1e-8};
      auto ours = example(step), theirs = copy_of(ours);
      if (!supports_cpu_adam(ours, config)) return;  // a libtorch that rounds in another way is used itself
      const auto version = ours.parameters[0]._version();
      cpu_adam(ours, config);
      libtorch_adam(theirs, config);
      expect_equal(ours.parameters, theirs.parameters, "parameter");
      expect_equal(ours.first, theirs.first, "first moment");
      expect_equal(ours.second, theirs.second, "second moment");
      EXPECT_GT(ours.parameters[0]._version(), version) << "who keeps something made of a weight must see that it changed";
    }
}

TEST(CpuAdam, LeavesOtherTensorsToLibtorch) {
  auto u = example(1);
  u.gradients[0] = u.gradients[0].to(at::kBFloat16);
  EXPECT_FALSE(supports_cpu_adam(u, {}));
  EXPECT_FALSE(supports_cpu_adam(example(1), {.decoupled_decay = false}));
}

// A tensor whose moments are widened in two parts, the second of five elements: each step is that of float32 moments, which are
// then rounded.
TEST(Adam, LargeTensorsHaveRoundedMomentsToo) {
  constexpr int64_t kSize = (int64_t{1} << 24) + 5;
  at::manual_seed(3);
  // Numbers repeat, which is fast, but not from one part to the next.
  auto numbers = [] { return at::randn({1000003}).repeat({17}).narrow(0, 0, kSize); };
  const auto start = numbers(), gradient = numbers();
  Tensor ours = start.clone().requires_grad_(), theirs = start.clone().requires_grad_();
  auto groups = [](const Tensor& weight) {
    return std::vector<ParameterGroup>{{.names = {"weight"}, .parameters = {weight}, .weight_decay = 0.1}};
  };
  Adam rounding(groups(ours), {.exp_avg_dtype = at::kBFloat16, .exp_avg_sq_dtype = at::kBFloat16}), wide(groups(theirs), {});
  for (int step = 0; step < 2; ++step) {
    ours.mutable_grad() = theirs.mutable_grad() = gradient;
    rounding.step(1e-2), wide.step(1e-2);
    EXPECT_TRUE(ours.detach().equal(theirs.detach())) << "weight in step " << step;
    const auto found = rounding.state(), expected = wide.state();
    ASSERT_EQ(found.size(), 3U);
    for (size_t i = 0; i < found.size(); ++i) {
      const auto& [name, moment] = expected[i];
      ASSERT_EQ(found[i].first, name);
      if (name == "step") continue;
      const auto rounded = moment.to(at::kBFloat16);
      ASSERT_EQ(found[i].second.scalar_type(), at::kBFloat16) << name;
      EXPECT_TRUE(found[i].second.equal(rounded)) << name << " in step " << step;
      moment.copy_(rounded);
    }
  }
}

}  // namespace
}  // namespace hone::optim
