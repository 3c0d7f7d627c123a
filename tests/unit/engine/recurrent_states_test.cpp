// Generation with models whose layers are gated delta nets, with a recurrent state per sequence, and attention.
#include "hone/model/inference/recurrent_states.h"

#include <map>

#include "engine/adapter_fixture.h"
#include "engine/engine_fixture.h"
#include "hone/base/fault_injection.h"
#include "hone/engine/scheduler.h"
#include "hone/model/decoder.h"
#include "hone/model/inference/paged_kv_cache.h"
#include "hone/model/inference/tensor_parallel_decoder.h"

namespace hone::engine {
namespace {

model::DecoderConfig tiny_config(const std::string& architecture) {
  return model::parse_config(model::tiny_json(architecture, {{"vocab_size", 260},
                                                             {"full_attention_interval", 4},
                                                             {"max_position_embeddings", 256},
                                                             {"initializer_range", 0.3},
                                                             {"num_hidden_layers", 4},
                                                             {"head_dim", 16},
                                                             {"num_experts", 4},
                                                             {"linear_num_key_heads", 2},
                                                             {"linear_num_value_heads", 4},
                                                             {"linear_key_head_dim", 8},
                                                             {"linear_value_head_dim", 16},
                                                             {"linear_conv_kernel_dim", 4}}),
                             "test");
}

class RecurrentStatesTest : public AdapterTest, public testing::WithParamInterface<const char*> {
 protected:
  RecurrentStatesTest() { model_ = model::CausalLM::random(tiny_config(GetParam()), 4); }

  std::vector<Tokens> expected_answers(const std::vector<Request>& list) {
    std::vector<Tokens> wanted;
    for (const auto& request : list) wanted.push_back(expected(request));
    return wanted;
  }
};
INSTANTIATE_TEST_SUITE_P(Families, RecurrentStatesTest, testing::Values("Qwen3NextForCausalLM", "Qwen3_5ForCausalLM"),
                         [](const auto& family) { return std::string(family.param); });

const std::vector<std::pair<std::string, EngineConfig>> kWays = {
    {"plain", {}},
    {"one at a time", {.max_num_seqs = 1}},
    {"two at a time", {.max_num_seqs = 2}},
    {"prompts in parts", {.max_num_batched_tokens = 5}},
    {"token by token", {.max_num_batched_tokens = 1}},
    {"blocks of one", {.block_size = 1}},
    {"tiny cache", {.block_size = 4, .kv_cache_tokens = 84}},
    {"tiny cache, parts", {.block_size = 4, .kv_cache_tokens = 84, .max_num_batched_tokens = 7}},
    {"tiny cache, two at a time", {.block_size = 4, .kv_cache_tokens = 84, .max_num_seqs = 2}},
    {"guesses", {.speculative_tokens = 4}}};

TEST_P(RecurrentStatesTest, EveryWayOfComputingGivesTheSameAnswers) {
  auto list = requests();
  list.push_back(list[1]);  // a prompt of one token, and equal ones
  list.back().prompt.resize(1);
  list.push_back(list[2]);
  const auto wanted = expected_answers(list);
  for (const auto& [name, config] : kWays) {
    auto engine = this->engine(config);
    EXPECT_EQ(answers(engine, list), wanted) << name;
    EXPECT_EQ(engine.stats().blocks_used, 0) << name;
    EXPECT_EQ(engine.stats().preemptions > 0, name.starts_with("tiny")) << name;
    EXPECT_EQ(engine.stats().cached_tokens, 0) << name;
    EXPECT_EQ(engine.stats().num_draft_tokens, 0) << name;
    EXPECT_EQ(answers(engine, list), wanted) << name << ", again: slots that others had start from zero";
  }
}

TEST_P(RecurrentStatesTest, BeamsHaveTheirOwnStates) {
  auto with_beams = [] {
    auto list = requests(12, 4);
    for (auto& request : list) request.sampling.num_beams = 4, request.sampling.eos_token_ids = {17, 40, 99};
    return list;
  };
  auto token_by_token = this->engine({.block_size = 1, .max_num_seqs = 4, .max_num_batched_tokens = 1});
  const auto wanted = answers(token_by_token, with_beams());
  for (auto [name, config] : std::vector<std::pair<std::string, EngineConfig>>{
           {"plain", {}},
           {"prompts in parts", {.max_num_batched_tokens = 5}},
           {"one search at a time", {.max_num_seqs = 4}},
           {"searches that share", {.max_num_seqs = 6}},
           {"tiny cache", {.block_size = 4, .kv_cache_tokens = 84}},
           {"tiny cache, parts", {.block_size = 4, .kv_cache_tokens = 84, .max_num_batched_tokens = 7}}}) {
    auto engine = this->engine(config);
    EXPECT_EQ(answers(engine, with_beams()), wanted) << name;
    EXPECT_EQ(engine.stats().blocks_used, 0) << name;
  }
}

// The log-probability that a pass over the full text gives every token of a completion.
TEST_P(RecurrentStatesTest, LogProbabilitiesAreThoseOfTheWholeText) {
  auto engine = this->engine({.max_num_batched_tokens = 6});
  auto asked = requests(8, 3);
  for (auto& request : asked) request.sampling.logprobs = 0;
  const auto prompts = asked;
  const auto completions = generate(engine, asked);
  for (size_t i = 0; i < prompts.size(); ++i) {
    Request whole{.prompt = prompts[i].prompt};
    whole.prompt.insert(whole.prompt.end(), completions[i].tokens.begin(), completions[i].tokens.end());
    whole.sampling = {.max_tokens = 1, .prompt_logprobs = 0};
    auto other = this->engine();
    const auto found = generate(other, {whole})[0].prompt_logprobs;
    for (size_t j = 0; j < completions[i].tokens.size(); ++j)
      EXPECT_NEAR(completions[i].logprobs[j].chosen.logprob, found[prompts[i].prompt.size() + j - 1].chosen.logprob, 2e-3);
  }
}

// Cancelled requests give their slots back, also where as many run as there are slots.
TEST_P(RecurrentStatesTest, CancelledRequestsLeaveTheirSlots) {
  auto engine = this->engine({.max_num_seqs = 2, .max_num_batched_tokens = 5});
  const auto list = requests();
  for (int round = 0; round < 5; ++round) {
    std::vector<RequestId> ids;
    for (const auto& request : list) ids.push_back(engine.add(request));
    for (int step = 0; step < round; ++step) engine.step();
    for (auto id : ids) engine.cancel(id);
    while (!engine.idle()) engine.step();
  }
  EXPECT_EQ(answers(engine, list), expected_answers(list));
}

// Requests that run go on with the new weights from their first token on; an engine that slept has other memory.
TEST_P(RecurrentStatesTest, StatesAreComputedAgainAfterWeightsChangeAndAfterSleep) {
  auto engine = this->engine({.fuse_projections = false});
  auto list = requests(10, 3);
  EXPECT_EQ(answers(engine, list), expected_answers(list));
  {
    at::NoGradGuard no_grad;
    for (auto& parameter : model_->parameters()) parameter.value->mul_(1.05);
  }
  engine.update_weights(1);
  EXPECT_EQ(answers(engine, list), expected_answers(list));
  for (const auto& request : list) engine.add(request);
  for (int i = 0; i < 4; ++i) engine.step();
  engine.sleep();
  engine.wake();
  while (!engine.idle()) engine.step();
  EXPECT_EQ(answers(engine, list), expected_answers(list));
}

// A step that fails after its pass has advanced the states: the requests are computed again.
TEST_P(RecurrentStatesTest, AFailedStepIsNotCountedTwice) {
  const auto list = requests(10, 3);
  const auto wanted = expected_answers(list);
  auto engine = this->engine();
  std::map<RequestId, Tokens> found;
  std::vector<RequestId> ids;
  for (const auto& request : list) ids.push_back(engine.add(request));
  int steps = 0, failures = 0;
  while (!engine.idle()) {
    set_fault(++steps % 3 == 0 ? "engine.select:throw:1+" : "");
    try {
      for (const auto& output : engine.step())
        found[output.id].insert(found[output.id].end(), output.tokens.begin(), output.tokens.end());
    } catch (const std::exception&) {
      ++failures;
    }
  }
  set_fault("");
  EXPECT_GT(failures, 2);
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(found[ids[i]], wanted[i]);
}

TEST_P(RecurrentStatesTest, AdaptersOfOtherRowsChangeNothing) {
  auto tuned_model = model::CausalLM::random(tiny_config(GetParam()), 4);
  tuner::TunerConfig config;
  config.lora.rank = 4;
  auto tuned = tuner::apply_tuner(*tuned_model, config);
  {
    at::NoGradGuard no_grad;
    at::manual_seed(9);
    for (const auto& [parameter, tensor] : tuned.trainable) Tensor(tensor).copy_(at::randn_like(tensor) * 0.3);
  }
  tuner::save_trained(*tuned_model, tuned, root_ / "a");
  auto list = requests(12, 4);
  auto wanted = expected_answers(list);
  std::swap(model_, tuned_model);
  for (size_t i = 0; i < list.size(); i += 2) wanted[i] = expected(list[i]);
  std::swap(model_, tuned_model);
  for (size_t i = 0; i < list.size(); i += 2) list[i].adapter = "a";
  for (const auto& settings : {EngineConfig{}, EngineConfig{.max_num_batched_tokens = 5}}) {
    auto engine = this->engine(settings);
    engine.load_adapter("a", root_ / "a");
    EXPECT_EQ(answers(engine, list), wanted);
    engine.unload_adapter("a");
  }
}

TEST(RecurrentStatesSize, KeysAndValuesAreOnlyThoseOfLayersWithAttention) {
  const auto config = tiny_config("Qwen3_5ForCausalLM");
  EXPECT_EQ(config.attention_layers(), 1);
  EXPECT_EQ(model::PagedKvCache::bytes_per_token(config, at::kFloat), 2 * 2 * 16 * 4);
  const int64_t channels = 2 * 2 * 8 + 4 * 16;
  EXPECT_EQ(model::RecurrentStates::bytes_per_sequence(config, at::kBFloat16), 3 * (3 * channels * 2 + 4 * 8 * 16 * 4));
  EXPECT_EQ(model::RecurrentStates::fitting(256, 100, 1e6), 256);
  EXPECT_EQ(model::RecurrentStates::fitting(256, 100, 2000), 10) << "half of the memory is for keys and values";
  EXPECT_EQ(model::RecurrentStates::fitting(256, 100, 50), 1);
  EXPECT_EQ(model::RecurrentStates::fitting(256, 0, 50), 256);
  EXPECT_THROW(model::TensorParallelDecoder::check(config, 2), UserError);
}

TEST(RecurrentStatesSlots, SlotsAreClearedAndCopiedAlone) {
  const auto config = tiny_config("Qwen3_5ForCausalLM");
  model::RecurrentStates states(config, 4, at::kFloat, std::vector(4, at::Device(at::kCPU)));
  states.set_slots({{0, 1, 2, 3}, {true, true, true, true}});
  const auto& first = *states.of(0).state;
  for (int64_t slot = 0; slot < 4; ++slot) first.recurrent_shkv[slot].fill_(slot + 1), first.conv_sck[slot].fill_(slot + 1);
  states.copy({1}, {3});
  states.set_slots({{2, 0}, {false, true}});
  auto value = [&](int64_t slot) { return first.recurrent_shkv[slot].max().item<float>(); };
  EXPECT_EQ((std::vector{value(0), value(1), value(2), value(3)}), (std::vector<float>{0, 2, 3, 2}));
  EXPECT_EQ(first.conv_sck[3].min().item<float>(), 2);
  EXPECT_TRUE(at::equal(states.of(0).slots_s, at::tensor({2, 0}, at::kLong)));
  EXPECT_THROW(states.set_slots({{4}, {true}}), std::exception);
}

}  // namespace
}  // namespace hone::engine
