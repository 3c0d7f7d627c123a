// Optimizers of one parameter each: what a backward pass leaves behind, and what they agree on with one for all.
#include "hone/optim/optimizers/optimizer_in_backward.h"

#include <gtest/gtest.h>

#include "hone/optim/optimizers/quantized_galore.h"

namespace hone::optim {
namespace {

std::vector<ParameterGroup> fresh_groups() {
  at::manual_seed(5);
  ParameterGroup matrices{{"model.layers.0.mlp.up_proj.weight"}, {at::randn({12, 8}).requires_grad_(true)}, 1.0, 0.1};
  ParameterGroup vectors{{"model.norm.weight"}, {at::randn({8}).requires_grad_(true)}, 1.0, 0.0};
  return {matrices, vectors};
}

Tensor loss_of(const std::vector<ParameterGroup>& groups) {
  return (groups[0].parameters[0].mv(groups[1].parameters[0]) - 1).square().sum();
}

OptimizerConfig galore_recipe(bool per_parameter) {
  OptimizerConfig config;
  config.name = "galore_adamw";
  config.arguments = {{"rank", 4}, {"update_proj_gap", 2}};
  config.per_parameter = per_parameter;
  return config;
}

TEST(OptimizerInBackward, LetsGradientsGoInTheBackwardPassWithTheSameNumbers) {
  auto one = fresh_groups(), each = fresh_groups();
  auto common = make_optimizer(galore_recipe(false), one), own = make_optimizer(galore_recipe(true), each);
  for (int step = 0; step < 4; ++step) {
    loss_of(one).backward();
    common->step(1e-2);
    common->zero_grad();
    own->before_last_backward(1e-2);
    loss_of(each).backward();
    for (const auto& group : each) EXPECT_FALSE(group.parameters[0].grad().defined());
    own->step(1e-2);
  }
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::allclose(one[i].parameters[0], each[i].parameters[0], 1e-6, 1e-7));
}

TEST(OptimizerInBackward, KeepsGradientsThatAreNotFiniteAndThoseOfEarlierPasses) {
  auto groups = fresh_groups();
  auto own = make_optimizer(galore_recipe(true), groups);
  const auto before = groups[0].parameters[0].detach().clone();
  loss_of(groups).backward();
  EXPECT_TRUE(groups[0].parameters[0].grad().defined()) << "more micro-batches are to come";
  own->before_last_backward(1e-2);
  (loss_of(groups) * std::numeric_limits<double>::infinity()).backward();
  EXPECT_TRUE(groups[0].parameters[0].grad().defined()) << "for who looks at their norm";
  EXPECT_TRUE(at::equal(before, groups[0].parameters[0]));
}

TEST(OptimizerInBackward, SaysThatNothingIsProjected) {
  auto config = galore_recipe(true);
  config.target_modules = {"q_proj"};
  EXPECT_THROW(make_optimizer(config, fresh_groups()), UserError);
}

TEST(QuantizedProjector, KeepsValuesWithinHalfAStep) {
  at::manual_seed(1);
  const auto matrix = at::randn({8, 64});
  const auto coarse = QuantizedProjector::of(matrix, 4, 32);
  EXPECT_LE(coarse.codes.max().item<int64_t>(), 15);
  EXPECT_EQ(coarse.scales.size(0), 16);
  const auto error = (coarse.values(matrix.sizes()) - matrix).abs().view({-1, 32});
  EXPECT_TRUE((error <= coarse.scales * 1.01).all().item<bool>());
  EXPECT_EQ(QuantizedProjector::of(matrix, 4, 48).scales.size(0), 8) << "rows, where groups do not come out even";
}

}  // namespace
}  // namespace hone::optim
