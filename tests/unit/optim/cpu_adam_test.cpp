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

}  // namespace
}  // namespace hone::optim
