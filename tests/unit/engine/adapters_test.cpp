#include <functional>

#include "engine/adapter_fixture.h"
#include "hone/model/inference/tensor_parallel_decoder.h"
#include "hone/tuner/multi_adapter.h"

namespace hone::engine {
namespace {

class AdaptersTest : public AdapterTest {
 protected:
  AdaptersTest() {
    saved_adapter("first", 1);
    saved_adapter("second", 2);
  }

  // What a model with nothing but this adapter on it answers.
  Tokens alone(const std::string& name, const Request& request) {
    auto other = tiny_model();
    tuner::load_adapter(*other, root_ / name);
    std::swap(model_, other);
    auto found = expected(request);
    std::swap(model_, other);
    return found;
  }

  // A model of two experts, and a folder with an adapter of theirs. Such files name no target_parameters.
  static std::unique_ptr<model::CausalLM> experts_model() {
    const auto config = model::tiny_json("Qwen3MoeForCausalLM", {{"vocab_size", 260},
                                                                 {"num_hidden_layers", 1},
                                                                 {"head_dim", 8},
                                                                 {"num_experts", 2},
                                                                 {"num_experts_per_tok", 1},
                                                                 {"moe_intermediate_size", 16},
                                                                 {"tie_word_embeddings", false},
                                                                 {"max_position_embeddings", 256},
                                                                 {"initializer_range", 0.3}});
    return model::CausalLM::random(model::parse_config(config, "test"), 4);
  }
  std::filesystem::path saved_experts_adapter() {
    io::Adapter adapter;
    adapter.config.peft_type = "LORA";
    adapter.config.rank = 2;
    adapter.config.targets.names = {"down_proj"};
    at::manual_seed(3);
    for (int expert : {0, 1}) {
      const auto module = fmt::format("model.layers.0.mlp.experts.{}.down_proj", expert);
      adapter.tensors.emplace_back(module + ".lora_A.weight", at::randn({2, 16}));
      adapter.tensors.emplace_back(module + ".lora_B.weight", at::randn({32, 2}));
    }
    io::write_adapter(root_ / "experts", adapter);
    return root_ / "experts";
  }

  // Log-probabilities of a prompt's tokens.
  Tensor prompt_logps(Engine& engine, const std::string& adapter) {
    auto request = requests(1)[4];
    request.adapter = adapter;
    request.sampling.prompt_logprobs = 0;
    std::vector<float> found;
    for (const auto& position : generate(engine, {request})[0].prompt_logprobs) found.push_back(position.chosen.logprob);
    return at::tensor(found);
  }

  // An engine with rounded weights serves the adapter almost as one without, and both serve the bare model as before.
  void expect_served_when_rounded(const std::function<std::unique_ptr<model::CausalLM>()>& make,
                                  const std::filesystem::path& adapter) {
    const auto plain = make(), rounded = make();
    Engine exact(*plain, tokenizer_), eight(*rounded, tokenizer_, {.quant_bits = 8});
    for (auto* engine : {&exact, &eight}) engine->load_adapter("a", adapter);
    const auto distance = [](const Tensor& a, const Tensor& b) { return (a - b).abs().mean().item<double>(); };
    const auto base = prompt_logps(exact, ""), adapted = prompt_logps(exact, "a");
    const double change = distance(base, adapted);
    EXPECT_GT(change, 0.1);
    EXPECT_LT(distance(prompt_logps(eight, "a"), adapted), 0.1 * change);
    EXPECT_LT(distance(prompt_logps(eight, ""), base), 0.1 * change);
  }
};

TEST_F(AdaptersTest, SeveralInOneBatchAnswerAsEachAlone) {
  auto request = requests(12)[2];
  auto base = expected(request), first = alone("first", request), second = alone("second", request);
  ASSERT_NE(base, first);
  ASSERT_NE(first, second);
  auto engine = this->engine();
  engine.load_adapter("a", root_ / "first");
  engine.load_adapter("b", root_ / "second");
  EXPECT_EQ(engine.adapters(), (std::vector<std::string>{"a", "b"}));
  auto with = [&](const std::string& adapter) {
    auto asked = request;
    asked.adapter = adapter;
    return asked;
  };
  for (int again = 0; again < 2; ++again)  // the second time from the prefix cache, which must not mix them up
    EXPECT_EQ(answers(engine, {with("a"), with(""), with("b"), with("a")}), (std::vector<Tokens>{first, base, second, first}))
        << again;
}

TEST_F(AdaptersTest, ComeAndGoUnderOneName) {
  auto request = requests(12)[2];
  auto engine = this->engine();
  request.adapter = "a";
  engine.load_adapter("a", root_ / "first");
  EXPECT_THROW(engine.load_adapter("a", root_ / "second"), UserError) << "the name is taken";
  EXPECT_EQ(answers(engine, {request})[0], alone("first", request));
  engine.add(request);
  engine.step();
  EXPECT_THROW(engine.unload_adapter("a"), UserError) << "it is in use";
  while (!engine.idle()) engine.step();
  engine.unload_adapter("a");
  EXPECT_THROW(engine.unload_adapter("a"), UserError);
  EXPECT_THROW(engine.add(request), UserError) << "nobody answers to the name";
  engine.load_adapter("a", root_ / "second");
  EXPECT_EQ(answers(engine, {request})[0], alone("second", request)) << "nothing of the first is left";
}

TEST_F(AdaptersTest, WhatIsNoAdapterLeavesTheModelAlone) {
  auto request = requests(12)[2];
  auto wanted = expected(request);
  auto engine = this->engine();
  EXPECT_THROW(engine.load_adapter("x", root_ / "nowhere"), UserError);
  EXPECT_TRUE(engine.adapters().empty());
  EXPECT_EQ(answers(engine, {request})[0], wanted);
}

// Rows of an adapter that changes experts, next to rows of the base model.
TEST_F(AdaptersTest, ExpertsOfAnAdapterAnswerItsRowsAlone) {
  model_ = experts_model();
  const auto folder = saved_experts_adapter();
  auto list = requests(8);
  std::vector<Tokens> wanted;
  auto engine = this->engine();
  engine.load_adapter("x", folder);
  for (size_t i = 0; i < list.size(); ++i) {
    const tuner::ActiveAdapter active(*model_, i % 3 == 1 ? "x" : "");
    wanted.push_back(expected(list[i]));
    if (i % 3 == 1) list[i].adapter = "x";
  }
  EXPECT_NE(wanted[1], expected(requests(8)[1]));
  EXPECT_EQ(answers(engine, list), wanted);
}

TEST_F(AdaptersTest, RoundedLayersAreServedWithThem) { expect_served_when_rounded(tiny_model, root_ / "first"); }
TEST_F(AdaptersTest, RoundedExpertsAreServedWithThem) { expect_served_when_rounded(experts_model, saved_experts_adapter()); }

// DoRA divides by norms of the weights, which are gone. Nothing is rounded before the error.
TEST_F(AdaptersTest, RoundingRefusesDora) {
  const auto folder = saved_adapter("dora", 3, /*dora=*/true);
  auto rounded = engine({.quant_bits = 8});
  EXPECT_THROW(rounded.load_adapter("a", folder), UserError);
  for (size_t shards : {1, 2}) {
    auto model = tiny_model();
    tuner::load_adapter(*model, folder);
    if (shards > 1) model::apply_tensor_parallel(*model, std::vector(shards, at::Device(at::kCPU)));
    try {
      Engine(*model, tokenizer_, {.quant_bits = 8});
      FAIL() << shards;
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_NE(std::string(error.what()).find("q_proj has a DoRA adapter"), std::string::npos) << error.what();
    }
    for (auto* decoder : model::computing_decoders(*model)) EXPECT_FALSE(decoder->blocks[0].attention.q.quantized);
  }
}

}  // namespace
}  // namespace hone::engine
