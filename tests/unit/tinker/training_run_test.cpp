#include "hone/tinker/model/training_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "hone/io/safetensors.h"
#include "hone/tinker/wire/request_error.h"
#include "tinker/forward_batch_fixture.h"
#include "train/scratch_folder.h"

namespace hone::tinker {
namespace {

using testing::ElementsAre;

class TrainingRunTest : public ForwardBatchTest {};

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

// Known before there is a run: weights, gradients and two moments of float32.
TEST_F(TrainingRunTest, KnowsItsBytes) {
  const auto mixture = model::CausalLM::random(
      model::parse_config(model::tiny_json("Qwen3MoeForCausalLM", {{"head_dim", 8}, {"num_experts", 4}}), "test"), 4);
  for (auto* model : {model_.get(), mixture.get()})
    for (const RunConfig& config : {RunConfig{.rank = 4}, RunConfig{.rank = 3, .train_unembed = false}}) {
      const TrainingRun run(*model, "s:train:0", config, "tiny");
      int64_t elements = 0;
      for (const auto& [name, tensor] : run.trainable()) elements += tensor.numel();
      EXPECT_EQ(run.bytes(), 16 * elements);
      EXPECT_EQ(run.shares_passes(), model != mixture.get());
    }
}

// Files have the optimizer's state by the names of the factors, whatever layout they have in memory.
TEST_F(TrainingRunTest, OptimizerStateIsSavedByName) {
  const train::ScratchFolder folder;
  auto all = runs();
  auto step = [&](TrainingRun& run) {
    std::vector<ForwardTask> tasks;
    tasks.emplace_back(*model_, run, request(10, 2), kMaxLength);
    compute(tasks, 1 << 20);
    run.optim_step({.learning_rate = 0.01});
    std::map<std::string, Tensor> weights;
    for (const auto& [name, tensor] : run.trainable()) weights[name] = tensor.detach().clone();
    return weights;
  };
  step(*all[1]);
  all[1]->save_weights(folder.path());
  all[1]->save_optimizer(folder.path());
  io::SafetensorsFile saved(folder.path() / "optimizer.safetensors");
  std::set<std::string> names;
  for (const auto& entry : saved.entries()) names.insert(entry.name);
  EXPECT_EQ(names.size(), 1 + 2 * all[1]->trainable().size());
  for (const auto& [name, tensor] : all[1]->trainable()) {
    EXPECT_TRUE(names.contains("exp_avg/" + name)) << name;
    EXPECT_TRUE(names.contains("exp_avg_sq/" + name)) << name;
  }
  const auto wanted = step(*all[1]);
  auto again = run("u:train:0", {.rank = 16, .seed = 9, .train_mlp = false});
  again->load(folder.path(), true);
  const auto found = step(*again);
  for (const auto& [name, tensor] : wanted) EXPECT_TRUE(at::equal(found.at(name), tensor)) << name;
  EXPECT_THROW(all[0]->load(folder.path(), true), RequestError) << "another rank";
}

}  // namespace
}  // namespace hone::tinker
