#include "hone/tinker/model/training_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/tiny_json.h"

namespace hone::tinker {
namespace {

using testing::ElementsAre;

std::vector<std::string> targets_of(const std::string& architecture, const RunConfig& config) {
  const auto model = model::CausalLM::random(model::parse_config(model::tiny_json(architecture), "test"), 4);
  return lora_targets(*model, config);
}

TEST(LoraTargets, LayersOfLinearAttentionAreAttention) {
  RunConfig config;
  config.train_mlp = config.train_unembed = false;
  EXPECT_THAT(targets_of("Qwen3_5ForCausalLM", config), ElementsAre("in_proj_a", "in_proj_b", "in_proj_qkv", "in_proj_z",
                                                                    "k_proj", "o_proj", "out_proj", "q_proj", "v_proj"));
  EXPECT_THAT(targets_of("Qwen2ForCausalLM", config), ElementsAre("k_proj", "o_proj", "q_proj", "v_proj"));
}

TEST(LoraTargets, AnMlpAlone) {
  RunConfig config;
  config.train_attn = config.train_unembed = false;
  EXPECT_THAT(targets_of("Qwen3_5ForCausalLM", config), ElementsAre("down_proj", "gate_proj", "up_proj"));
}

}  // namespace
}  // namespace hone::tinker
