#include "hone/model/module.h"

#include <gtest/gtest.h>

#include "hone/model/causal_lm.h"
#include "hone/model/decoder.h"
#include "hone/model/expansion.h"
#include "hone/model/weight_hooks.h"
#include "model/tiny_json.h"

namespace hone::model {
namespace {

DecoderConfig three_layers(const std::string& architecture, bool tied) {
  return parse_config(tiny_json(architecture, {{"num_hidden_layers", 3}, {"head_dim", 8}, {"tie_word_embeddings", tied}}),
                      "test");
}

std::vector<std::string> names_of(const std::vector<NamedParameter>& parameters) {
  std::vector<std::string> names;
  for (const auto& parameter : parameters) names.push_back(parameter.name);
  return names;
}

TEST(Module, NamesAreThoseOfTheFamily) {
  auto config = three_layers("Gemma3ForCausalLM", false);
  config.names.model = "model.language_model";
  auto decoder = decoder_skeleton(config);
  auto names = names_of(decoder.blocks[1].module().parameters());
  std::vector<std::string> expected;
  for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "self_attn.q_norm",
                           "self_attn.k_norm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "input_layernorm",
                           "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"})
    expected.push_back(fmt::format("model.language_model.layers.1.{}.weight", name));
  EXPECT_EQ(names, expected);
  EXPECT_EQ(decoder.embedding.name, "model.language_model.embed_tokens");
  EXPECT_EQ(decoder.head.name, "lm_head");
}

TEST(Module, NewBlocksAreNumberedAsTheFamilyNamesThem) {
  auto config = three_layers("Qwen2MoeForCausalLM", false);
  config.names.model = "model.language_model";
  auto model = CausalLM::random(config, 1);
  expand_blocks(model->decoder(), 1);
  const auto units = model->units();
  ASSERT_EQ(units.size(), 6u + 3u);
  for (size_t i = 1; i <= 6; ++i)
    for (const auto& name : names_of(units[i].parameters()))
      EXPECT_TRUE(name.starts_with(fmt::format("model.language_model.layers.{}.", i - 1))) << name;
}

// Router replay finds a layer's experts by its number among the layers that have any.
TEST(Module, NewBlocksWithExpertsAreNumberedAmongThose) {
  auto model = CausalLM::random(
      parse_config(tiny_json("Qwen3MoeForCausalLM", {{"num_hidden_layers", 3}, {"head_dim", 8}, {"mlp_only_layers", {1}}}),
                   "test"),
      1);
  expand_blocks(model->decoder(), 1);
  std::vector<int64_t> found;
  for (const auto& block : model->decoder().blocks) found.push_back(block.moe ? block.moe->moe_layer : -1);
  EXPECT_EQ(found, (std::vector<int64_t>{0, 1, -1, -1, 2, 3}));
}

TEST(Module, TunersSeeLinearLayersThenRoutersAndExperts) {
  auto decoder = decoder_skeleton(three_layers("Qwen2MoeForCausalLM", false));
  std::vector<std::string> ends;
  for (const auto& slot : decoder.blocks[0].module().slots()) ends.push_back(slot.path.substr(decoder.blocks[0].name.size() + 1));
  EXPECT_EQ(ends, (std::vector<std::string>{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                            "mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj",
                                            "mlp.shared_expert.down_proj", "mlp.shared_expert_gate", "mlp.gate",
                                            "mlp.experts.gate_up_proj", "mlp.experts.down_proj"}));
  EXPECT_EQ(decoder.tree().linears().size(), 3u * 8 + 1);
}

TEST(Module, ATiedHeadIsListedOnce) {
  for (bool tied : {false, true}) {
    auto model = CausalLM::random(three_layers("Qwen3ForCausalLM", tied), 1);
    auto names = names_of(model->parameters());
    EXPECT_EQ(std::ranges::count(names, "lm_head.weight"), tied ? 0 : 1);
    EXPECT_EQ(model->units().back().parameters().size(), tied ? 0u : 1u);
  }
}

struct CallLog final : WeightHooks {
  std::string calls;
  void before_forward(size_t unit) override { calls += fmt::format("+{} ", unit); }
  void after_forward(size_t unit) override { calls += fmt::format("-{} ", unit); }
  void before_backward(size_t unit) override { calls += fmt::format("b{} ", unit); }
  void after_backward(size_t unit) override { calls += fmt::format("d{} ", unit); }
};

// A sharded model gathers by these calls.
TEST(Module, HooksAreToldOfUnitsByTheirNumbers) {
  auto model = CausalLM::random(three_layers("Qwen3ForCausalLM", false), 1);
  for (auto& parameter : model->parameters()) parameter.value->requires_grad_();
  CallLog log;
  model->decoder().weight_hooks = &log;
  auto input = packed_texts({{1, 2, 3}, {4, 5}}, at::kCPU);
  const std::string backward = "d4 b3 d3 b2 d2 b1 d1 ";
  model->hidden_states(input).sum().backward();
  EXPECT_EQ(log.calls, "+0 -0 +1 -1 +2 -2 +3 -3 +4 " + backward);
  log.calls.clear();
  auto x_th = model->run_blocks(model->embed(input), 0, 2, input);  // two stages, as on two ranks of a pipeline
  model->final_norm(model->run_blocks(x_th, 2, 3, input)).sum().backward();
  EXPECT_EQ(log.calls, "+0 -0 +1 -1 +2 -2 +3 -3 +4 d4 b3 b2 d3 d2 b1 d1 ");
  model->decoder().weight_hooks = nullptr;
}

}  // namespace
}  // namespace hone::model
