#include "hone/model/inference/tensor_parallel_decoder.h"

#include "engine/adapter_fixture.h"
#include "hone/ops/linear/dora_norm.h"
#include "hone/tuner/multi_adapter.h"

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

// Its norms are those of the unsharded weights, also in layers whose inputs are sharded, and where a shard has a row of zeros.
TEST_F(SlicesTest, DoraIsCutToo) {
  const auto root = saved_adapter("dora", 5, /*dora=*/true);
  const auto [request, adapted, wanted] = asked_of(root);
  auto sharded = sharded_model();
  Engine engine(*sharded, tokenizer_);
  engine.load_adapter("a", root);
  EXPECT_EQ(answers(engine, {request, adapted}), wanted);
  auto whole = this->engine();
  whole.load_adapter("a", root);
  at::InferenceMode inference;
  model::ForwardInput input;
  input.segments.append(40);
  input.tokens_t = at::arange(40) * 5;
  input.positions_t = at::arange(40);
  const auto bare_tv = model_->logits(model_->hidden_states(input));
  const tuner::ActiveAdapter on_whole(*model_, "a"), on_sharded(*sharded, "a");
  for (bool zeros : {false, true}) {
    for (auto* each : {model_.get(), sharded.get()}) {
      auto& o = each->decoder().blocks[0].attention.o;
      if (zeros) o.weight[3].narrow(0, 0, o.weight.size(1) / 2).zero_(), o.adapters.at(0).b[3].zero_();
    }
    model::reshard(*sharded);
    const auto expected_tv = model_->logits(model_->hidden_states(input)),
               found_tv = sharded->logits(sharded->hidden_states(input));
    const auto largest = expected_tv.abs().max().item<float>();
    EXPECT_GT((bare_tv - expected_tv).abs().max().item<float>(), 0.1 * largest) << "the adapter is part of the result";
    EXPECT_LT((found_tv - expected_tv).abs().max().item<float>(), 1e-4 * largest) << zeros;
  }
}

// In 16 bits too, where norms of shards and of unsharded weights are rounded, every shard scales by the unsharded layer's ratios.
TEST_F(SlicesTest, RatiosOfDoraAreThoseOfTheWholeLayer) {
  auto model = model::CausalLM::random(model_->config(), 4, {.dtype = at::kBFloat16});
  tuner::load_adapter(*model, saved_adapter("dora", 5, /*dora=*/true), {.dtype = at::kBFloat16});
  model::apply_tensor_parallel(*model, {at::kCPU, at::kCPU});
  const auto ratios = [](const model::Linear& layer) {
    const auto& adapter = layer.adapters.at(0);
    return (adapter.magnitude / ops::updated_norm(layer.weight, adapter, at::kBFloat16)).to(at::kBFloat16);
  };
  const auto& whole = model->decoder().blocks[0];
  for (auto* decoder : model::computing_decoders(*model)) {
    const auto& shard = decoder->blocks[0];
    EXPECT_TRUE(at::equal(ratios(shard.attention.o), ratios(whole.attention.o)));
    EXPECT_TRUE(at::equal(ratios(shard.mlp->down), ratios(whole.mlp->down)));
  }
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
