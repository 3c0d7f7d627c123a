#include "hone/tuner/targets.h"

#include <gtest/gtest.h>

namespace hone::tuner {
namespace {

const std::string kQuery = "model.layers.1.self_attn.q_proj";

TEST(Targets, NamesMatchWholePartsAtTheEnd) {
  io::AdapterConfig config;
  config.targets.names = {"q_proj", "mlp.up_proj"};
  const TargetMatcher matches(config);
  EXPECT_TRUE(matches(kQuery));
  EXPECT_TRUE(matches("model.layers.0.mlp.up_proj"));
  EXPECT_FALSE(matches("model.layers.0.self_attn.wq_proj"));
  EXPECT_FALSE(matches("model.layers.0.up_proj"));
}

TEST(Targets, RegexMatchesTheWholePath) {
  io::AdapterConfig config;
  config.targets.regex = R"(.*\.1\..*_proj)";
  EXPECT_TRUE(TargetMatcher(config)(kQuery));
  config.targets.regex = "q_proj";
  EXPECT_FALSE(TargetMatcher(config)(kQuery));
  config.targets.regex = "(";
  EXPECT_THROW(TargetMatcher{config}, UserError);
}

TEST(Targets, LayersExclusionsAndSavedModules) {
  io::AdapterConfig config;
  config.targets.names = {"q_proj", "lm_head"};
  config.layers_to_transform = {0};
  EXPECT_FALSE(TargetMatcher(config)(kQuery));
  config.layers_to_transform = {1};
  EXPECT_TRUE(TargetMatcher(config)(kQuery));
  config.layers_pattern = {"h"};
  EXPECT_FALSE(TargetMatcher(config)(kQuery));
  config.layers_to_transform = {};
  config.excluded.names = {"layers.1.self_attn.q_proj"};
  EXPECT_FALSE(TargetMatcher(config)(kQuery));
  config.modules_to_save = {"lm_head"};
  EXPECT_FALSE(TargetMatcher(config)("lm_head"));
}

TEST(Targets, PatternsGiveRanksAndAlphas) {
  io::AdapterConfig config;
  config.rank = 8;
  config.alpha = 16;
  config.rank_pattern = {{"layers\\.1\\.self_attn\\.q_proj", 4}};
  config.alpha_pattern = {{"q_proj", 2}};
  const TargetMatcher matcher(config);
  EXPECT_EQ(matcher.rank(kQuery), 4);
  EXPECT_EQ(matcher.rank("model.layers.2.self_attn.q_proj"), 8);
  EXPECT_EQ(matcher.alpha("model.layers.2.self_attn.q_proj"), 2);
  EXPECT_EQ(matcher.alpha("model.layers.2.self_attn.xq_proj"), 16);
}

TEST(Targets, LayerIndexIsTheFirstNumberBetweenDots) {
  EXPECT_EQ(layer_index("model.layers.12.experts.3.up_proj"), 12);
  EXPECT_EQ(layer_index("model.norm.weight"), -1);
  EXPECT_EQ(layer_index("model.layers.7"), -1);
}

TEST(Targets, SavedModulesHoldTheirParameters) {
  EXPECT_TRUE(saves_parameter({"embed_tokens"}, "model.embed_tokens.weight"));
  EXPECT_TRUE(saves_parameter({"mlp"}, "model.layers.0.mlp.up_proj.weight"));
  EXPECT_FALSE(saves_parameter({"weight"}, "model.embed_tokens.weight"));
}

}  // namespace
}  // namespace hone::tuner
