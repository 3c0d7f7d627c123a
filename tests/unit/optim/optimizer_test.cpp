#include <gmock/gmock.h>

#include "hone/base/error.h"
#include "hone/optim/factory.h"
#include "hone/optim/kwargs.h"
#include "hone/optim/lr_scheduler.h"
#include "hone/optim/optimizers/blockwise_quantized.h"
#include "hone/optim/param_groups.h"

namespace hone::optim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

NamedTensors two_parameters() {
  at::manual_seed(0);
  return {{"model.layers.0.mlp.up_proj.weight", at::randn({8, 4}).requires_grad_(true)},
          {"model.norm.weight", at::ones({4}).requires_grad_(true)}};
}

void set_gradients(const NamedTensors& parameters, double value) {
  for (const auto& [name, tensor] : parameters) {
    Tensor parameter = tensor;
    parameter.mutable_grad() = at::full_like(parameter, value).detach();
  }
}

TEST(Groups, DecayIsNotForBiasesAndNorms) {
  EXPECT_TRUE(takes_weight_decay("model.layers.0.self_attn.q_proj.weight"));
  EXPECT_TRUE(takes_weight_decay("model.layers.0.self_attn.q_proj.lora_A.weight"));
  for (const char* name : {"model.layers.0.self_attn.q_proj.bias", "model.layers.0.input_layernorm.weight", "model.norm.weight",
                           "model.layers.0.self_attn.q_norm.weight", "norm.weight", "block.RMSNorm.weight"})
    EXPECT_FALSE(takes_weight_decay(name)) << name;
  EXPECT_TRUE(takes_weight_decay("model.normaliser.weight"));
}

TEST(Groups, EmptyGroupsAreLeftOut) {
  auto groups = make_param_groups(two_parameters(), {.weight_decay = 0.1});
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_THAT(groups[1].names, ElementsAre("model.norm.weight"));
  EXPECT_EQ(groups[1].weight_decay, 0.0);
  EXPECT_EQ(make_param_groups({two_parameters().front()}, {}).size(), 1U);
}

TEST(Optimizer, ClipScalesToTheNormAndReportsTheOldOne) {
  auto parameters = two_parameters();
  auto optimizer = make_optimizer({.name = "lion_32bit"}, make_param_groups(parameters, {}));
  set_gradients(parameters, 2.0);
  EXPECT_NEAR(optimizer->clip_grad_norm(0).item<float>(), 12.0, 1e-5);  // 36 elements of 2
  EXPECT_EQ(parameters[0].second.grad()[0][0].item<float>(), 2.0F);
  EXPECT_NEAR(optimizer->clip_grad_norm(6.0).item<float>(), 12.0, 1e-5);
  EXPECT_NEAR(parameters[0].second.grad()[0][0].item<float>(), 1.0, 1e-5);
  optimizer->zero_grad();
  EXPECT_FALSE(parameters[0].second.grad().defined());
}

TEST(Optimizer, SgdClipsWhileItSteps) {
  const struct {
    double momentum, dampening;
    bool nesterov;
  } cases[] = {{0, 0, false}, {0.9, 0, false}, {0.9, 0.3, false}, {0.9, 0, true}};
  for (const auto& [momentum, dampening, nesterov] : cases) {
    const Json arguments{{"momentum", momentum}, {"dampening", dampening}, {"nesterov", nesterov}};
    auto parameters = two_parameters();
    auto optimizer =
        make_optimizer({.name = "sgd", .arguments = arguments}, make_param_groups(parameters, {.weight_decay = 0.5}));
    const auto weight = parameters[0].second;
    Tensor expected = weight.detach().clone(), buffer;
    for (int step = 0; step < 2; ++step) {  // the first is not dampened
      set_gradients(parameters, 2.0);
      EXPECT_NEAR(optimizer->clip_grad_norm(6.0).item<float>(), 12.0, 1e-5);
      EXPECT_EQ(weight.grad()[0][0].item<float>(), 2.0F);
      optimizer->step(0.1);
      const auto gradient = 1 + 0.5 * expected;
      buffer = step == 0 ? gradient : momentum * buffer + (1 - dampening) * gradient;
      expected = expected - 0.1 * (nesterov ? gradient + momentum * buffer : buffer);
      EXPECT_TRUE(at::allclose(weight, expected, 1e-5, 1e-6)) << arguments.dump() << " in step " << step;
    }
  }
}

TEST(Optimizer, ParameterWithoutGradientStaysAsItIs) {
  for (const auto& name : optimizer_names()) {
    auto parameters = two_parameters();
    auto optimizer = make_optimizer({.name = name}, make_param_groups(parameters, {.weight_decay = 0.1}));
    Tensor first = parameters[0].second, second = parameters[1].second, before = second.detach().clone();
    first.mutable_grad() = at::ones_like(first).detach();
    optimizer->step(1e-2);
    EXPECT_TRUE(at::equal(second, before)) << name;
  }
}

TEST(Optimizer, StateOfAnotherOptimizerIsRefusedByName) {
  auto parameters = two_parameters();
  auto adam = make_optimizer({.name = "adamw_torch"}, make_param_groups(parameters, {}));
  auto lion = make_optimizer({.name = "lion_32bit"}, make_param_groups(parameters, {}));
  try {
    adam->load_state(lion->state());
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_checkpoint);
  }
  NamedTensors misshapen = adam->state();
  for (auto& [name, tensor] : misshapen) tensor = at::zeros({3});
  EXPECT_THROW(adam->load_state(misshapen), UserError);
}

TEST(Optimizer, ArgumentsAreCheckedByName) {
  auto parameters = two_parameters();
  EXPECT_EQ(parse_optim_args(" rank=64, scale = 2.0 "), (Json{{"rank", "64"}, {"scale", "2.0"}}));
  EXPECT_THROW(parse_optim_args("rank"), UserError);
  EXPECT_THROW(make_optimizer({.name = "sgd", .arguments = {{"momentun", 0.9}}}, make_param_groups(parameters, {})), UserError);
  EXPECT_THROW(make_optimizer({.name = "sgd", .arguments = {{"momentum", "much"}}}, make_param_groups(parameters, {})),
               UserError);
  EXPECT_THROW(make_optimizer({.name = "sgd", .arguments = {{"momentum", "0.9x"}}}, make_param_groups(parameters, {})),
               UserError);
}

TEST(Optimizer, AProjectionNeedsARankAndAnInterval) {
  for (const char* name : {"galore_adamw", "apollo_adamw"})
    for (const char* key : {"rank", "update_proj_gap"})
      EXPECT_THROW(make_optimizer({.name = name, .arguments = {{key, 0}}}, make_param_groups(two_parameters(), {})), UserError)
          << name << " " << key;
}

TEST(BlockwiseQuantized, KeepsValuesToACodeStepAndZeroExactly) {
  at::manual_seed(1);
  Tensor values = at::randn({70, 100});
  values[0].zero_();
  BlockwiseQuantized quantized(values, true);
  EXPECT_EQ(quantized.dequantize().abs().max().item<float>(), 0.0F);
  quantized.quantize(values);
  EXPECT_LT((quantized.dequantize() - values).abs().max().item<float>(), 0.04);
  EXPECT_EQ(quantized.dequantize()[0].abs().max().item<float>(), 0.0F);
  BlockwiseQuantized squares(values, false);
  squares.quantize(values.square());
  EXPECT_GE(squares.dequantize().min().item<float>(), 0.0F);
}

TEST(LrScheduler, ChecksNamesAndArguments) {
  EXPECT_THROW(LrScheduler({.name = "cosin"}), UserError);
  EXPECT_THROW(LrScheduler({.name = "cosine", .arguments = {{"min_lr", 1e-6}}}), UserError);
  EXPECT_THROW(LrScheduler({.name = "cosine_with_min_lr"}), UserError);
  EXPECT_THROW(LrScheduler({.name = "warmup_stable_decay", .arguments = {{"decay_type", "exp"}}}), UserError);
}

TEST(LrScheduler, WarmUpAsStepsShareOrRatio) {
  EXPECT_EQ((WarmupConfig{10, 0.5}.step_count(100)), 10);
  EXPECT_EQ((WarmupConfig{0.1, 0}.step_count(95)), 10);
  EXPECT_EQ((WarmupConfig{0, 0.1}.step_count(95)), 10);
  EXPECT_EQ((WarmupConfig{0, 0}.step_count(95)), 0);
}

TEST(LrScheduler, PlateauStateSurvivesASave) {
  LrSchedulerConfig config{.name = "reduce_lr_on_plateau", .learning_rate = 1.0, .arguments = {{"patience", 1}, {"factor", 0.5}}};
  LrScheduler first(config);
  for (double metric : {1.0, 1.0, 1.0}) first.observe(metric);
  LrScheduler second(config);
  second.load_state(first.state());
  for (double metric : {1.0, 1.0}) first.observe(metric), second.observe(metric);
  EXPECT_EQ(first.learning_rate(0), second.learning_rate(0));
  EXPECT_LT(second.learning_rate(0), 1.0);
}

}  // namespace
}  // namespace hone::optim
