#include "hone/parallel/sharding/sharding_config.h"

#include <gtest/gtest.h>

#include "hone/base/error.h"
#include "hone/device/tensor.h"
#include "hone/parallel/sharding/wrap_policy.h"

namespace hone::parallel {
namespace {

TEST(DeepSpeedConfig, PresetsAreTheStages) {
  for (int stage = 0; stage <= 3; ++stage)
    EXPECT_EQ(read_deepspeed(deepspeed_preset("zero" + std::to_string(stage))).sharding.stage, stage);
  auto offloaded = read_deepspeed(deepspeed_preset("zero3_offload")).sharding;
  EXPECT_TRUE(offloaded.offload_optimizer && offloaded.offload_parameters);
  EXPECT_FALSE(read_deepspeed(deepspeed_preset("zero2_offload")).sharding.offload_parameters);
  for (const char* other : {"zero4", "zero1_offload", "zero", "zero33"}) EXPECT_TRUE(deepspeed_preset(other).is_null()) << other;
}

TEST(DeepSpeedConfig, ExamplesAreReadWhole) {
  auto config = parse_json(R"({
    "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": 4, "gradient_clipping": "auto",
    "zero_allow_untested_optimizer": true, "steps_per_print": 1e7,
    "fp16": {"enabled": "auto", "loss_scale": 0, "loss_scale_window": 1000, "initial_scale_power": 16, "hysteresis": 2, "min_loss_scale": 1},
    "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 3, "overlap_comm": false, "contiguous_gradients": true, "sub_group_size": 1e9, "reduce_bucket_size": "auto",
      "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto", "stage3_max_live_parameters": 1e9,
      "stage3_max_reuse_distance": 1e9, "stage3_gather_16bit_weights_on_model_save": true, "offload_optimizer": {"device": "cpu", "pin_memory": true}}})");
  auto made = read_deepspeed(*config);
  EXPECT_TRUE(made.unknown.empty()) << made.unknown.front();
  EXPECT_EQ(made.sharding.stage, 3);
  EXPECT_TRUE(made.sharding.offload_optimizer);
  EXPECT_EQ(made.option_values.dump(), R"({"gradient_accumulation_steps":4})");
}

TEST(ShardingConfig, UnitsBySize) {
  EXPECT_EQ(read_fsdp("full_shard", {{"fsdp_min_num_params", 100000}}).sharding.unit_size, 100000);
  EXPECT_THROW(read_fsdp("full_shard", {{"min_num_params", "many"}}), UserError);
  EXPECT_EQ(read_fsdp("", {{"fsdp_min_num_params", "2000"}}).sharding.unit_size, 2000);  // as a launcher passes it on
  const auto with_policy = [](const char* policy) {
    return read_fsdp("", {{"fsdp_auto_wrap_policy", policy}, {"fsdp_min_num_params", 2000}});
  };
  EXPECT_EQ(with_policy("SIZE_BASED_WRAP").sharding.unit_size, 2000);
  EXPECT_EQ(with_policy("TRANSFORMER_BASED_WRAP").sharding.unit_size, 0);
  EXPECT_EQ(with_policy("TRANSFORMER_BASED_WRAP").without_effect, std::vector<std::string>{"min_num_params"});
  EXPECT_EQ(read_fsdp("", {{"auto_wrap_policy", "SIZE_BASED_WRAP"}}).sharding.unit_size, 100'000'000);  // accelerate's default
  EXPECT_THROW(with_policy("LAYERS"), UserError);
  std::vector<Tensor> held;
  std::vector<model::NamedParameter> parameters;
  held.reserve(8);
  const auto add = [&](const char* name, int64_t count) { parameters.push_back({name, &held.emplace_back(at::zeros({count}))}); };
  add("model.layers.0.self_attn.q_proj.weight", 100);
  add("model.layers.0.self_attn.q_proj.bias", 4);
  add("model.layers.0.self_attn.k_proj.weight", 40);
  add("model.layers.0.self_attn.v_proj.weight", 40);
  add("model.layers.0.mlp.up_proj.weight", 60);
  add("model.layers.0.input_layernorm.weight", 4);
  const std::vector<std::string> modules{"model.embed_tokens", "model.layers.0", "model.norm", "lm_head"};
  auto units = size_based_wrap(parameters, modules, 80);
  ASSERT_EQ(units.units.size(), 2u);  // q_proj; k_proj and v_proj together
  EXPECT_EQ(units.units[0].size() + units.units[1].size(), 4u);
  EXPECT_EQ(units.root.size(), 2u);  // 64 parameters of the block are too few
  EXPECT_EQ(size_based_wrap(parameters, modules, 60).units.size(), 3u);
  EXPECT_EQ(size_based_wrap(parameters, modules, 1000).root.size(), parameters.size());
  // Blocks of another family's name are units all the same.
  for (auto& parameter : parameters) parameter.name.replace(0, std::string("model.layers").size(), "model.language_model.layers");
  auto renamed = size_based_wrap(parameters, {"model.language_model.layers.0"}, 80);
  EXPECT_EQ(renamed.units.size(), 2u);
  EXPECT_EQ(renamed.root.size(), 2u);
}

TEST(ShardingConfig, ActivationsGoToTheHostWhenAFileSaysSo) {
  auto deepspeed = read_deepspeed({{"zero_optimization", {{"stage", 2}}},
                                   {"activation_checkpointing", {{"cpu_checkpointing", true}, {"partition_activations", true}}}});
  EXPECT_TRUE(deepspeed.offload_activations && deepspeed.recompute && deepspeed.unknown.empty());
  auto fsdp = read_fsdp("full_shard", {{"fsdp_activation_cpu_offload", true}});
  EXPECT_TRUE(fsdp.offload_activations && fsdp.recompute && fsdp.unknown.empty());
  EXPECT_FALSE(read_fsdp("full_shard", {{"activation_checkpointing", true}}).offload_activations);
}

TEST(DeepSpeedConfig, NamesWhatItDoesNotKnow) {
  auto made = read_deepspeed({{"zero_optimization", {{"stage", 2}, {"allgather_partition", true}}}, {"gradient_cliping", 1}});
  EXPECT_EQ(made.unknown, (std::vector<std::string>{"zero_optimization.allgather_partition", "gradient_cliping"}));
  EXPECT_THROW(read_deepspeed({{"zero_optimization", {{"stage", 5}}}}), UserError);
  EXPECT_THROW(read_deepspeed({{"zero_optimization", {{"stage", 2}, {"offload_optimizer", "cpu"}}}}), UserError);
  EXPECT_THROW(read_deepspeed({{"zero_optimization", {{"stage", 2}, {"offload_param", {{"device", "cpu"}}}}}}), UserError);
}

TEST(FsdpConfig, WordsAndBothVersions) {
  EXPECT_EQ(read_fsdp("full_shard auto_wrap", nullptr).sharding.stage, 3);
  EXPECT_FALSE(read_fsdp("shard_grad_op", nullptr).sharding.reshard_after_forward);
  EXPECT_EQ(read_fsdp("no_shard", nullptr).sharding.stage, 0);
  EXPECT_TRUE(read_fsdp("hybrid_shard offload", nullptr).hybrid_shard);
  EXPECT_TRUE(read_fsdp("fsdp2", nullptr).recompute);
  EXPECT_THROW(read_fsdp("full_shart", nullptr), UserError);
  auto mixed = [](Json type) {
    return read_fsdp("fsdp2", {{"fsdp_mixed_precision_policy", {{"param_dtype", "bfloat16"}, {"reduce_dtype", type}}}});
  };
  EXPECT_EQ(mixed("torch.bfloat16").sharding.reduce_type, at::kBFloat16);
  EXPECT_EQ(mixed("float32").sharding.reduce_type, at::kFloat);
  EXPECT_TRUE(mixed(nullptr).unknown.empty());
  EXPECT_THROW(mixed("int4"), UserError);
  auto first = read_fsdp(
      "", {{"fsdp_sharding_strategy", "SHARD_GRAD_OP"}, {"fsdp_offload_params", "true"}, {"fsdp_use_orig_params", true}});
  EXPECT_TRUE(first.sharding.offload_parameters && !first.sharding.reshard_after_forward && first.unknown.empty());
  auto second = read_fsdp(
      "", {{"fsdp_version", 2}, {"fsdp_reshard_after_forward", false}, {"activation_checkpointing", true}, {"colour", "red"}});
  EXPECT_TRUE(!second.sharding.reshard_after_forward && second.recompute);
  ASSERT_EQ(second.unknown.size(), 1);
  EXPECT_TRUE(second.unknown.front().starts_with("colour; expected fsdp_version, ")) << second.unknown.front();
  EXPECT_EQ(first.without_effect, std::vector<std::string>{"use_orig_params"});
  EXPECT_THROW(read_fsdp("", {{"fsdp_version", 3}}), UserError);
  EXPECT_EQ(read_fsdp("false", nullptr).sharding.stage, 0);
}

}  // namespace
}  // namespace hone::parallel
