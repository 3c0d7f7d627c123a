// The planner's arithmetic, without a model.
#include <gtest/gtest.h>

#include "hone/train/plan/devices.h"
#include "hone/train/plan/memory.h"
#include "hone/train/plan/shapes.h"

namespace hone::train {
namespace {

Workload seven_billion(tuner::TunerType kind) {
  Workload work{.model = model::parse_config(*known_shape("Qwen/Qwen2.5-7B-Instruct"), "shape")};
  work.weight_bytes = 2;
  work.tokens = 2048;
  count_parameters(work, tuner::TunerConfig{.kind = kind});
  return work;
}

TEST(MergeEdits, ParametersAreCountedFromTheShape) {
  auto full = seven_billion(tuner::TunerType::full);
  EXPECT_EQ(full.parameters, 7'615'616'512);
  EXPECT_EQ(full.trained(), full.parameters);
  auto lora = seven_billion(tuner::TunerType::adapter);
  EXPECT_EQ(lora.adapter_parameters, 20'185'088);  // rank 8 on every linear, as peft counts it
  EXPECT_EQ(lora.trained_base, 0);
}

TEST(MergeEdits, AllExpertsAreWeightsAndATokensOwnAreActivations) {
  auto count = [](const char* name) {
    Workload work{.model = model::parse_config(*known_shape(name), "shape")};
    work.weight_bytes = 2;
    work.tokens = 2048;
    tuner::TunerConfig tuner;
    tuner.lora.target_parameters = {"mlp.experts.down_proj"};
    count_parameters(work, tuner);
    return work;
  };
  auto qwen3 = count("Qwen/Qwen3-30B-A3B-Instruct-2507");
  EXPECT_EQ(qwen3.parameters, 30'532'122'624);
  EXPECT_EQ(count("mistralai/Mixtral-8x7B-Instruct-v0.1").parameters, 46'702'792'704);
  EXPECT_EQ(count("Qwen/Qwen1.5-MoE-A2.7B").parameters, 14'315'784'192);
  const int64_t attention = 48 * 8 * (2048 + 4096 + 2 * (2048 + 512) + 4096 + 2048), experts = 48 * 8 * 128 * (768 + 2048);
  EXPECT_EQ(qwen3.adapter_parameters, attention + experts);
  // As wide inside as a dense model of 8 * 768.
  auto few = qwen3, many = qwen3;
  many.model.experts.count *= 2;
  EXPECT_EQ(plan_memory(few, Sharding::none, 1, {}).activations, plan_memory(many, Sharding::none, 1, {}).activations);
}

const Json& small_vision_model() {
  static const Json config{{"architectures", {"Qwen2_5_VLForConditionalGeneration"}},
                           {"model_type", "qwen2_5_vl"},
                           {"vocab_size", 512},
                           {"hidden_size", 64},
                           {"num_hidden_layers", 1},
                           {"num_attention_heads", 4},
                           {"intermediate_size", 96},
                           {"image_token_id", 500},
                           {"rope_scaling", {{"type", "mrope"}, {"mrope_section", {2, 3, 3}}}},
                           {"vision_config",
                            {{"depth", 2},
                             {"hidden_size", 32},
                             {"out_hidden_size", 64},
                             {"intermediate_size", 48},
                             {"num_heads", 2},
                             {"window_size", 56},
                             {"fullatt_block_indexes", {1}}}}};
  return config;
}

// Four patches a token: a block's activations in 16 bits, and one frame of the pixels in 32.
TEST(MergeEdits, StillImagesHaveOneFrameOfPixels) {
  const auto& config = small_vision_model();
  auto activations = [&](int64_t image_tokens) {
    Workload work{.model = model::parse_config(config, "shape")};
    work.weight_bytes = 2, work.tokens = 8, work.images = 1, work.image_tokens = image_tokens;
    count_parameters(work, tuner::TunerConfig{.kind = tuner::TunerType::adapter});
    return plan_memory(work, Sharding::none, 1, {}).activations;
  };
  EXPECT_EQ(activations(2000) - activations(1000), 1000 * 4 * ((8 * 32 + 3 * 48) * 2 + 3 * 14 * 14 * 4));
}

// Short names of modules that train in full are those of the tuner; what trains in full is not adapted.
TEST(MergeEdits, ModulesToSaveAreCounted) {
  auto count = [](const char* saved, bool freeze_vit = true) {
    Workload work{.model = model::parse_config(small_vision_model(), "shape")};
    tuner::TunerConfig tuner;
    tuner.frozen_parts.vit = freeze_vit;
    if (*saved) tuner.lora.modules_to_save = {saved};
    count_parameters(work, tuner);
    return work;
  };
  const auto plain = count(""), towers = count("all-towers"), words = count("all-embedding"), norms = count("all-norm"),
             adapted = count("", false), both = count("all-towers", false);
  EXPECT_EQ(plain.trained_base, 0);
  EXPECT_FALSE(plain.tower_trains);
  EXPECT_EQ(words.trained_base, 512 * 64);
  EXPECT_GT(norms.trained_base, 0);
  EXPECT_GT(towers.trained_base, 2 * 4 * 32 * 32);  // the attention of two blocks, and more
  EXPECT_TRUE(towers.tower_trains);
  EXPECT_EQ(towers.adapter_parameters, plain.adapter_parameters);
  EXPECT_GT(adapted.adapter_parameters, plain.adapter_parameters);
  EXPECT_EQ(both.adapter_parameters, plain.adapter_parameters);
}

TEST(MergeEdits, KnownShapesByAnySpelling) {
  for (auto name : {"Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b", "/models/Qwen2.5-7B", "LLM-Research/Meta-Llama-3-8B-Instruct"})
    EXPECT_TRUE(known_shape(name)) << name;
  for (auto name : {"Qwen2.5-7", "Qwen2.5-7Bx", "", "nobody/knows"}) EXPECT_FALSE(known_shape(name)) << name;
  for (const auto& name : known_shape_names()) EXPECT_NO_THROW(model::parse_config(*known_shape(name), name)) << name;
}

TEST(MergeEdits, EveryStageDividesMore) {
  auto work = seven_billion(tuner::TunerType::full);
  auto total = [&](Sharding sharding, int devices) { return plan_memory(work, sharding, devices, {}).total(); };
  EXPECT_GT(total(Sharding::none, 8), total(Sharding::zero1, 8));
  EXPECT_GT(total(Sharding::zero1, 8), total(Sharding::zero2, 8));
  EXPECT_GT(total(Sharding::zero2, 8), total(Sharding::zero3, 8));
  EXPECT_EQ(total(Sharding::zero3, 8), total(Sharding::fsdp, 8));
  EXPECT_GT(total(Sharding::zero3, 2), total(Sharding::zero3, 8));
  EXPECT_EQ(total(Sharding::none, 1), total(Sharding::none, 8));
}

TEST(MergeEdits, MastersAndAccumulationCost) {
  auto work = seven_billion(tuner::TunerType::full);
  double plain = plan_memory(work, Sharding::none, 1, {}).total();
  work.masters = true;
  double with_masters = plan_memory(work, Sharding::none, 1, {}).total();
  EXPECT_NEAR(with_masters - plain, 7.6e9 * (4 + 2 * 2 + 2), 4e9);  // the copies, wider moments, wider gradients
  work.masters = false, work.recompute = false;
  double kept = plan_memory(work, Sharding::none, 1, {}).total();
  EXPECT_GT(kept, plain);
  work.accumulation = 4;
  EXPECT_GT(plan_memory(work, Sharding::none, 1, {}).total(), kept - 1);
}

TEST(MergeEdits, DevicesHaveRoom) {
  for (const auto& device : planned_devices()) EXPECT_GT(device.memory_gib, device.reserved_gib) << device.name;
}

}  // namespace
}  // namespace hone::train
