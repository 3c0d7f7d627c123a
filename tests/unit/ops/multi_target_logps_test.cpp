#include "hone/ops/loss/linear_logps.h"

#include <gtest/gtest.h>

namespace hone::ops {
namespace {

constexpr int64_t kRows = 40, kWords = 33, kTargets = 5;

struct MultiTargetCase {
  Tensor hidden, weight, bias, targets;
  CrossEntropyOptions options;
  TensorList leaves;

  MultiTargetCase(int adapters, bool with_bias) {
    at::manual_seed(3);
    hidden = at::randn({kRows, 8}).requires_grad_(true);
    weight = at::randn({kWords, 8}).requires_grad_(adapters == 0);
    if (with_bias) bias = at::randn({kWords}).requires_grad_(adapters == 0);
    targets = at::randint(0, kWords, {kRows, kTargets}, at::kLong);
    targets.select(1, 1).copy_(targets.select(1, 0));  // a target twice
    options.chunk_bytes = kWords * 4 * 16;             // several chunks
    leaves = {hidden};
    for (const auto& each : {weight, bias})
      if (each.defined() && each.requires_grad()) leaves.push_back(each);
    for (int i = 0; i < adapters; ++i) {
      options.adapters.push_back({.adapter = std::to_string(i),
                                  .a = at::randn({2 + i, 8}).requires_grad_(true),
                                  .b = at::randn({kWords, 2 + i}).requires_grad_(true),
                                  .scale = 0.5});
      leaves.insert(leaves.end(), {options.adapters.back().a, options.adapters.back().b});
    }
    if (adapters > 1) options.adapter_rows = {{"1", 0, 7}, {"", 7, 13}, {"0", 13, 38}, {"1", 38, kRows}};
  }

  TensorList gradients(const Tensor& logps, const Tensor& weights) {
    (logps * weights).sum().backward();
    TensorList list;
    for (auto& leaf : leaves) list.push_back(leaf.grad().clone()), leaf.mutable_grad().reset();
    return list;
  }
};

TEST(MultiTargetLogps, FollowsTheComposition) {
  for (int adapters : {0, 1, 2})
    for (bool with_bias : {false, true})
      for (double scale : {1.0, 1 / 0.7}) {
        MultiTargetCase c(adapters, with_bias);
        c.options.scale = scale;
        const auto weights = at::randn({kRows, kTargets});
        const auto plain = linear_logps_plain(c.hidden, c.weight, c.bias, c.targets, c.options).logps_t,
                   found = linear_logps(c.hidden, c.weight, c.bias, c.targets, c.options).logps_t;
        EXPECT_TRUE(at::allclose(found, plain, 1e-5, 1e-5));
        const auto wanted = c.gradients(plain, weights), ours = c.gradients(found, weights);
        for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(at::allclose(ours[i], wanted[i], 1e-4, 1e-4)) << adapters << i;
        at::NoGradGuard no_grad;
        EXPECT_TRUE(linear_logps(c.hidden, c.weight, c.bias, c.targets, c.options).logps_t.equal(found));
      }
}

TEST(MultiTargetLogps, FrozenHiddenStatesTrainTheHead) {
  MultiTargetCase c(1, false);
  c.hidden = c.hidden.detach();
  c.leaves.erase(c.leaves.begin());
  const auto weights = at::randn({kRows, kTargets});
  const auto wanted = c.gradients(linear_logps_plain(c.hidden, c.weight, c.bias, c.targets, c.options).logps_t, weights),
             found = c.gradients(linear_logps(c.hidden, c.weight, c.bias, c.targets, c.options).logps_t, weights);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(at::allclose(found[i], wanted[i], 1e-4, 1e-4)) << i;
}

}  // namespace
}  // namespace hone::ops
