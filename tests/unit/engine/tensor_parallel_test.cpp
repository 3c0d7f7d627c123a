#include "hone/model/inference/tensor_parallel_decoder.h"

#include "engine/adapter_fixture.h"

namespace hone::engine {
namespace {

// A model sharded along its heads and MLPs answers as the unsharded one does, here in shards that are threads of the CPU.
class SlicesTest : public AdapterTest {
 protected:
  static std::unique_ptr<model::CausalLM> sharded_model() {
    auto model = tiny_model();
    model::apply_tensor_parallel(*model, {at::kCPU, at::kCPU});
    return model;
  }
};

TEST_F(SlicesTest, AnswerAsTheWholeModel) {
  std::vector<Tokens> wanted;
  for (const auto& request : requests()) wanted.push_back(expected(request));
  for (auto config : {EngineConfig{}, EngineConfig{.block_size = 4, .kv_cache_tokens = 84, .max_num_batched_tokens = 7},
                      EngineConfig{.speculative_tokens = 4}}) {
    auto sharded = sharded_model();
    Engine engine(*sharded, tokenizer_, config);
    EXPECT_EQ(answers(engine, requests()), wanted);
    EXPECT_EQ(answers(engine, requests()), wanted) << "again, from the prefix cache";
  }
}

TEST_F(SlicesTest, LogitsAreThoseOfTheWholeModel) {
  at::InferenceMode inference;
  auto sharded = sharded_model();
  model::ForwardInput input;
  input.segments.append(40);
  input.tokens_t = at::arange(40) * 5;
  input.positions_t = at::arange(40);
  auto whole = model_->logits(model_->hidden_states(input)), parts = sharded->logits(sharded->hidden_states(input));
  EXPECT_EQ(parts.sizes(), whole.sizes());
  EXPECT_LT((parts - whole).abs().max().item<float>(), 1e-4 * whole.abs().max().item<float>());
}

TEST_F(SlicesTest, ReplicasMayShareThem) {
  auto list = requests(12, 5);
  auto sharded = sharded_model();
  Engine one(*sharded, tokenizer_), two(std::vector{sharded.get(), sharded.get()}, tokenizer_);
  EXPECT_EQ(answers(two, list), answers(one, list));
}

TEST_F(SlicesTest, AdaptersAreCutToo) {
  const auto root = saved_adapter("a", 5);
  const auto [request, adapted, wanted] = asked_of(root);
  auto sharded = sharded_model();
  Engine engine(*sharded, tokenizer_);
  EXPECT_EQ(answers(engine, {request})[0], wanted[0]);
  engine.load_adapter("a", root);
  EXPECT_EQ(answers(engine, {request, adapted}), wanted);
  engine.unload_adapter("a");
  EXPECT_EQ(answers(engine, {request})[0], wanted[0]);
}

TEST_F(SlicesTest, AnotherAdapterUnderTheSameNameIsFollowed) {
  auto request = requests(12)[2];
  request.adapter = "a";
  auto whole = engine();
  auto sharded = sharded_model();
  Engine engine(*sharded, tokenizer_);
  for (uint64_t seed : {5, 6, 7}) {  // what one leaves free, the next may take
    const auto folder = saved_adapter(fmt::format("of-{}", seed), seed);
    for (auto* each : {&whole, &engine}) each->load_adapter("a", folder);
    EXPECT_EQ(answers(engine, {request}), answers(whole, {request})) << seed;
    for (auto* each : {&whole, &engine}) each->unload_adapter("a");
  }
}

TEST_F(SlicesTest, DoraIsRefusedAndTheModelGoesOn) {
  const auto folder = saved_adapter("dora", 5, /*dora=*/true);
  auto request = requests(12)[2];
  auto whole = engine();
  whole.load_adapter("a", folder);
  auto sharded = sharded_model();
  Engine engine(*sharded, tokenizer_);
  try {
    engine.load_adapter("a", folder);
    FAIL() << "slices know no whole weights";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("tensor parallel"), std::string::npos) << error.what();
  }
  EXPECT_EQ(answers(engine, {request}), answers(whole, {request}));
}

TEST_F(SlicesTest, RoundedWeightsAndACacheInFewerBitsGoWithThem) {
  auto sharded = sharded_model();
  Engine engine(*sharded, tokenizer_, {.kv_cache_dtype = ops::KvCacheDtype::int8, .quant_bits = 8});
  for (const auto& tokens : answers(engine, requests())) EXPECT_EQ(tokens.size(), 20u);
}

TEST_F(SlicesTest, HeadsThatCannotBeDividedAreNamed) {
  try {
    model::apply_tensor_parallel(*tiny_model(), std::vector(4, at::Device(at::kCPU)));
    FAIL() << "two key heads in four slices";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("2 key heads"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace hone::engine
