#include "hone/tuner/freeze.h"

#include <gmock/gmock.h>

#include "hone/base/error.h"

namespace hone::tuner {
namespace {

using testing::ElementsAre;

std::vector<ParameterSize> four_layers() {
  std::vector<ParameterSize> parameters = {{"model.embed_tokens.weight", 100}};
  for (int i = 0; i < 4; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    parameters.push_back({layer + "self_attn.q_proj.weight", 50});
    parameters.push_back({layer + "mlp.up_proj.weight", 50});
  }
  parameters.push_back({"model.norm.weight", 10});
  parameters.push_back({"lm_head.weight", 90});
  return parameters;
}

std::vector<std::string> names_of(const std::vector<bool>& trained) {
  std::vector<std::string> names;
  const auto parameters = four_layers();
  for (size_t i = 0; i < trained.size(); ++i)
    if (trained[i]) names.push_back(parameters[i].name);
  return names;
}

TEST(FreezeLayers, LastFirstAndInsertedLayers) {
  EXPECT_THAT(trained_layers(4, 2, false), ElementsAre(2, 3));
  EXPECT_THAT(trained_layers(4, -1, false), ElementsAre(0));
  EXPECT_THAT(trained_layers(4, 9, false), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(trained_layers(4, 2, true), ElementsAre(1, 3));
  EXPECT_THROW(trained_layers(4, 3, true), UserError);
}

TEST(FreezeLayers, ModulesInsideAndOutside) {
  EXPECT_THAT(names_of(trained_by_layer(four_layers(), {1, {"mlp"}, {"norm"}}, false)),
              ElementsAre("model.layers.3.mlp.up_proj.weight", "model.norm.weight"));
  EXPECT_THAT(names_of(trained_by_layer(four_layers(), {-1, {"all"}, {}}, false)),
              ElementsAre("model.layers.0.self_attn.q_proj.weight", "model.layers.0.mlp.up_proj.weight"));
}

TEST(FreezeLayers, UnknownModuleNamesTheChoices) {
  try {
    trained_by_layer(four_layers(), {1, {"attention"}, {}}, false);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.hint(), testing::HasSubstr("self_attn"));
  }
  EXPECT_THROW(trained_by_layer(four_layers(), {1, {"all"}, {"embeddings"}}, false), UserError);
}

TEST(FreezeParameters, FreezesThenSwitchesOnAgain) {
  FreezeParameters config;
  config.freeze = {"model."};
  config.trainable = {"model.norm"};
  config.trainable_regex = R"(layers\.3\..*up_proj)";
  EXPECT_THAT(names_of(trained_by_prefix(four_layers(), config)),
              ElementsAre("model.layers.3.mlp.up_proj.weight", "model.norm.weight", "lm_head.weight"));
}

TEST(FreezeParameters, RatioCountsFromTheEmbeddingUp) {
  FreezeParameters config;
  config.freeze_ratio = 0.5;  // 300 of 600: embedding and the first two layers, exactly
  EXPECT_THAT(names_of(trained_by_prefix(four_layers(), config)).front(), "model.layers.2.self_attn.q_proj.weight");
  config.freeze_ratio = 0.49;
  EXPECT_THAT(names_of(trained_by_prefix(four_layers(), config)).front(), "model.layers.1.mlp.up_proj.weight");
}

TEST(FreezeParameters, RefusesWhatSelectsNothing) {
  FreezeParameters config;
  config.freeze = {"transformer.h"};
  EXPECT_THROW(trained_by_prefix(four_layers(), config), UserError);
  config.freeze = {};
  config.freeze_ratio = 1.0;
  EXPECT_THROW(trained_by_prefix(four_layers(), config), UserError);
  config.freeze_ratio = 0;
  config.freeze_regex = "(";
  EXPECT_THROW(trained_by_prefix(four_layers(), config), UserError);
}

}  // namespace
}  // namespace hone::tuner
