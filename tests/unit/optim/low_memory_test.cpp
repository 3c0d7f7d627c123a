#include <gmock/gmock.h>

#include "hone/base/error.h"
#include "hone/optim/factory.h"
#include "hone/optim/param_groups.h"

namespace hone::optim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NamedTensors two_layers(at::ScalarType type = at::kFloat) {
  at::manual_seed(0);
  NamedTensors parameters;
  for (const char* name : {"model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.weight",
                           "model.layers.10.mlp.up_proj.weight"})
    parameters.emplace_back(name, at::randn({12, 8}).to(type).requires_grad_(true));
  return parameters;
}

void step(const NamedTensors& parameters, Optimizer& optimizer, int times = 1) {
  for (int i = 0; i < times; ++i) {
    for (const auto& [name, tensor] : parameters) {
      Tensor parameter = tensor;
      if (parameter.requires_grad()) parameter.mutable_grad() = at::ones_like(parameter).detach();
    }
    optimizer.step(1e-2);
    optimizer.zero_grad();
  }
}

std::vector<bool> trained(const NamedTensors& parameters) {
  std::vector<bool> list;
  for (const auto& [name, tensor] : parameters) list.push_back(tensor.requires_grad());
  return list;
}

TEST(BlockAdam, OneLayerAtATimeHasGradientsInOrderOfTheirNumbers) {
  auto parameters = two_layers();
  auto optimizer = make_optimizer({.name = "badam", .arguments = {{"switch_interval", 2}}}, make_param_groups(parameters, {}));
  EXPECT_THAT(trained(parameters), ElementsAre(false, true, false, false));
  step(parameters, *optimizer);
  EXPECT_THAT(trained(parameters), ElementsAre(false, false, true, false));
  step(parameters, *optimizer, 2);
  EXPECT_THAT(trained(parameters), ElementsAre(false, false, false, true));
  step(parameters, *optimizer, 2);
  EXPECT_THAT(trained(parameters), ElementsAre(false, true, false, false));
}

TEST(BlockAdam, HalfPrecisionWeightsAreUpdatedInFloat32) {
  auto parameters = two_layers(at::kBFloat16);
  const Tensor before = parameters[1].second.detach().clone();
  auto optimizer = make_optimizer({.name = "badam", .arguments = {{"switch_mode", "fixed"}}}, make_param_groups(parameters, {}));
  for (int i = 0; i < 40; ++i) {
    Tensor first = parameters[1].second;
    first.mutable_grad() = at::full_like(first, 1e-3).detach();
    optimizer->step(1e-5);  // far below a bfloat16 step of a weight near one
    optimizer->zero_grad();
  }
  Tensor master;
  optimizer->visit_state([&](const std::string& name, Tensor& tensor) {
    if (name.starts_with("master/")) master = tensor;
  });
  ASSERT_TRUE(master.defined());
  EXPECT_NEAR((before.to(at::kFloat) - master).mean().item<double>(), 40 * 1e-5, 1e-6);
}

TEST(BlockAdam, RefusesWhatHasNoSuchBlock) {
  auto parameters = two_layers();
  OptimizerConfig config{.name = "badam", .arguments = {{"start_block", 3}}};
  EXPECT_THROW(make_optimizer(config, make_param_groups(parameters, {})), UserError);
  EXPECT_THROW(make_optimizer({.name = "badam"}, make_param_groups({parameters.front()}, {})), UserError);
}

TEST(Arguments, AWordOutsideItsChoicesIsNamed) {
  try {
    make_optimizer({.name = "badam", .arguments = {{"switch_mode", "sideways"}}}, make_param_groups(two_layers(), {}));
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("sideways"));
  }
}

TEST(Apollo, MomentsHaveTheSizeOfTheProjection) {
  auto parameters = two_layers();
  auto optimizer = make_optimizer({.name = "apollo_adamw", .arguments = {{"rank", 2}}}, make_param_groups(parameters, {}));
  step(parameters, *optimizer);
  optimizer->visit_state([&](const std::string& name, Tensor& tensor) {
    if (name == "exp_avg/model.layers.0.mlp.up_proj.weight") {
      EXPECT_EQ(tensor.sizes(), at::IntArrayRef({12, 2}));
    }
    if (name == "exp_avg/model.embed_tokens.weight") {
      EXPECT_EQ(tensor.sizes(), at::IntArrayRef({12, 8}));
    }
  });
}

TEST(Optimizers, SettingsAreCheckedWithoutAModel) {
  for (const auto& name : optimizer_names()) EXPECT_NO_THROW(validate({.name = name})) << name;
  EXPECT_NO_THROW(validate({.name = "galore_adamw", .arguments = {{"rank", 8}}, .target_modules = {"q_proj"}}));
  EXPECT_NO_THROW(validate({.name = "galore_adamw", .per_parameter = true}));
  EXPECT_NO_THROW(validate({.name = "badam", .arguments = {{"start_block", 7}}})) << "the model may have eight blocks";
  EXPECT_NO_THROW(validate({.name = "adamw_torch", .arguments = nullptr}));
  EXPECT_THROW(validate({.name = "adamm"}), UserError);
  EXPECT_THROW(validate({.name = "adamw_torch", .arguments = {{"beta", 1}}}), UserError);
  EXPECT_THROW(validate({.name = "badam", .arguments = {{"switch_mode", "sideways"}}}), UserError);
}

}  // namespace
}  // namespace hone::optim
