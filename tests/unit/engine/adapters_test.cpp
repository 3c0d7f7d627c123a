#include <unistd.h>

#include <filesystem>

#include "engine/engine_fixture.h"
#include "hone/tuner/tuner.h"

namespace hone::engine {
namespace {

namespace fs = std::filesystem;

class AdaptersTest : public EngineTest {
 protected:
  AdaptersTest() : root_(fs::temp_directory_path() / fmt::format("hone-engine-adapters-{}", ::getpid())) {
    save("first", 1);
    save("second", 2);
  }
  ~AdaptersTest() override { fs::remove_all(root_); }

  // A LoRA adapter whose matrices are random, so that it says something else than the model.
  void save(const std::string& name, uint64_t seed) {
    auto tuned_model = tiny_model();
    tuner::TunerConfig config;
    config.lora.rank = 4;
    auto tuned = tuner::apply_tuner(*tuned_model, config);
    {
      at::NoGradGuard no_grad;
      at::manual_seed(seed);
      for (const auto& [parameter, tensor] : tuned.trainable) Tensor(tensor).copy_(at::randn_like(tensor) * 0.3);
    }
    tuner::save_trained(*tuned_model, tuned, root_ / name);
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

  fs::path root_;
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

// Such files name no target_parameters: only on the model it shows that they change experts, which compute without knowing the
// rows' adapters.
TEST_F(AdaptersTest, PairsOfSingleExpertsAreRefused) {
  const auto config = model::tiny_json("Qwen3MoeForCausalLM", {{"vocab_size", 260},
                                                               {"num_hidden_layers", 1},
                                                               {"head_dim", 8},
                                                               {"num_experts", 2},
                                                               {"num_experts_per_tok", 1},
                                                               {"moe_intermediate_size", 16},
                                                               {"tie_word_embeddings", false},
                                                               {"max_position_embeddings", 256},
                                                               {"initializer_range", 0.3}});
  model_ = model::CausalLM::random(model::parse_config(config, "test"), 4);
  io::Adapter adapter;
  adapter.config.peft_type = "LORA";
  adapter.config.rank = 2;
  adapter.config.targets.names = {"down_proj"};
  for (int expert : {0, 1}) {
    const auto module = fmt::format("model.layers.0.mlp.experts.{}.down_proj", expert);
    adapter.tensors.emplace_back(module + ".lora_A.weight", at::randn({2, 16}));
    adapter.tensors.emplace_back(module + ".lora_B.weight", at::randn({32, 2}));
  }
  io::write_adapter(root_ / "experts", adapter);
  auto request = requests(4)[0];
  auto wanted = expected(request);
  auto engine = this->engine();
  try {
    engine.load_adapter("x", root_ / "experts");
    FAIL() << "it would answer as the base";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("it changes experts"), std::string::npos) << error.what();
  }
  EXPECT_EQ(answers(engine, {request})[0], wanted);
}

}  // namespace
}  // namespace hone::engine
