#include "hone/engine/engine.h"

#include <map>

#include "engine/engine_fixture.h"
#include "hone/engine/constraints/compiler.h"
#include "hone/ops/moe/moe.h"

namespace hone::engine {
namespace {

// Greedy answers are those of the definition, whatever the engine does to make them fast.
TEST_F(EngineTest, EveryWayOfComputingGivesTheSameAnswers) {
  std::vector<Tokens> wanted;
  for (const auto& request : requests()) wanted.push_back(expected(request));
  for (auto [name, config] : std::vector<std::pair<std::string, EngineConfig>>{
           {"plain", {}},
           {"one at a time", {.max_num_seqs = 1}},
           {"no prefix cache", {.enable_prefix_caching = false}},
           {"prompts in parts", {.max_num_batched_tokens = 5}},
           {"blocks of one", {.block_size = 1}},
           {"tiny cache", {.block_size = 4, .kv_cache_tokens = 84}},
           {"tiny cache, parts", {.block_size = 4, .kv_cache_tokens = 84, .max_num_batched_tokens = 7}},
           {"guesses", {.speculative_tokens = 4}}}) {
    auto engine = this->engine(config);
    EXPECT_EQ(answers(engine, requests()), wanted) << name;
    auto stats = engine.stats();
    EXPECT_EQ(stats.blocks_used, 0) << name;
    EXPECT_EQ(stats.preemptions > 0, name.starts_with("tiny")) << name;
    EXPECT_EQ(answers(engine, requests()), wanted) << name << ", again";
    if (config.enable_prefix_caching && config.kv_cache_tokens == 0) {
      EXPECT_GT(engine.stats().cached_tokens, 0) << name;
    }
  }
}

// For router replay: the experts of each token are those of a pass over the full text, whatever was cached or computed again.
TEST_F(EngineTest, ExpertsOfEveryTokenAreReturned) {
  const auto config = model::tiny_json("Qwen3MoeForCausalLM", {{"vocab_size", 260},
                                                               {"max_position_embeddings", 256},
                                                               {"initializer_range", 0.3},
                                                               {"num_experts", 4},
                                                               {"num_hidden_layers", 3},
                                                               {"mlp_only_layers", {1}},
                                                               {"head_dim", 8}});
  auto model = model::CausalLM::random(model::parse_config(config, "test"), 4);
  for (auto settings :
       {EngineConfig{}, EngineConfig{.block_size = 4, .kv_cache_tokens = 84}, EngineConfig{.speculative_tokens = 4}}) {
    settings.enable_return_routed_experts = true;
    Engine engine(*model, tokenizer_, settings);
    std::map<RequestId, Tokens> texts;
    for (auto& request : requests()) texts.emplace(engine.add(request), request.prompt);
    size_t ended = 0;
    while (!engine.idle())
      for (const auto& output : engine.step()) {
        auto& text = texts[output.id];
        text.insert(text.end(), output.tokens.begin(), output.tokens.end());
        if (output.finish == FinishReason::none) continue;
        at::NoGradGuard no_grad;
        TensorList router_logits;
        model->hidden_states(model::packed_texts({text}, at::kCPU), nullptr, &router_logits);
        const auto whole = ops::routed_experts(router_logits, 2).to(at::kShort).contiguous();
        const std::vector<int16_t> expected(whole.const_data_ptr<int16_t>(), whole.const_data_ptr<int16_t>() + whole.numel());
        ASSERT_EQ(output.routed_experts.size(), expected.size() - 4);  // the last token was never computed
        EXPECT_TRUE(std::equal(output.routed_experts.begin(), output.routed_experts.end(), expected.begin()));
        ++ended;
      }
    EXPECT_EQ(ended, texts.size());
    EXPECT_GT(engine.stats().cached_tokens, 0);
    EXPECT_EQ(engine.stats().preemptions > 0, settings.kv_cache_tokens > 0) << "some are computed again where the cache is small";
  }
  EXPECT_THROW(this->engine({.enable_return_routed_experts = true}), UserError);  // it has no experts
}

// Whoever trains the model holds its tensors: an engine beside it may not put others in their place.
TEST_F(EngineTest, WeightsThatSomebodyTrainsStayTheTensorsTheyWere) {
  auto addresses = [&] {
    std::vector<const void*> list;
    for (const auto& parameter : model_->parameters()) list.push_back(parameter.value->unsafeGetTensorImpl());
    return list;
  };
  auto before = addresses();
  auto beside = engine({.fuse_projections = false});
  auto found = answers(beside, requests());
  EXPECT_EQ(addresses(), before);
  auto alone = engine();
  EXPECT_NE(addresses(), before);
  EXPECT_EQ(answers(alone, requests()), found);
}

// What a cache in fewer bits keeps does not depend on how prompts were cut, shared or computed again.
TEST_F(EngineTest, ACacheInFewerBitsAnswersTheSameHoweverItIsFilled) {
  using ops::KvCacheDtype;
  for (auto code : {KvCacheDtype::fp8_e5m2, KvCacheDtype::fp8_e4m3, KvCacheDtype::int8, KvCacheDtype::int4}) {
    auto whole = engine({.enable_prefix_caching = false, .kv_cache_dtype = code});
    auto wanted = answers(whole, requests());
    for (auto config : {EngineConfig{.max_num_batched_tokens = 5}, EngineConfig{.block_size = 4, .kv_cache_tokens = 84},
                        EngineConfig{.speculative_tokens = 4}}) {
      config.kv_cache_dtype = code;
      auto other = engine(config);
      EXPECT_EQ(answers(other, requests()), wanted) << static_cast<int>(code);
      auto beams = requests(10, 2);
      for (auto& request : beams) request.sampling.num_beams = 3;  // their last blocks are copied, scales and all
      auto alone = engine({.enable_prefix_caching = false, .kv_cache_dtype = code});
      EXPECT_EQ(answers(other, beams), answers(alone, beams)) << static_cast<int>(code);
    }
  }
}

TEST_F(EngineTest, EqualPromptsThatComeTogetherAreComputedOnce) {
  auto engine = this->engine({.block_size = 4});
  std::vector<Request> same(4, requests()[2]);
  auto found = answers(engine, same);
  for (const auto& tokens : found) EXPECT_EQ(tokens, found[0]);
  EXPECT_EQ(engine.stats().cached_tokens, 3 * 32) << "three of them find all full blocks of the first but the last tokens'";
}

TEST_F(EngineTest, ASeedGivesTheSameAnswerInAnyCompany) {
  auto with_seed = [](std::vector<Request> list) {
    for (size_t i = 0; i < list.size(); ++i) {
      list[i].sampling.temperature = 1.0;
      list[i].sampling.top_p = i % 2 ? 0.9 : 1.0;
      list[i].sampling.seed = i;
    }
    return list;
  };
  auto engine = this->engine();
  auto together = answers(engine, with_seed(requests()));
  for (size_t i = 0; i < together.size(); ++i) {
    auto alone = this->engine({.max_num_batched_tokens = 6});
    EXPECT_EQ(answers(alone, {with_seed(requests())[i]})[0], together[i]) << i;
  }
  auto guessing = this->engine({.speculative_tokens = 3});
  EXPECT_EQ(answers(guessing, with_seed(requests())), together) << "guesses change nothing";
}

// More rows than a product rounds alike, prompts longer than a part, guesses: not one bit changes.
TEST_F(EngineTest, ARepeatableAnswerIsTheSameToTheLastBit) {
  auto asked = [&](bool repeatable) {
    auto list = requests(12, 4);
    for (size_t i = 0; i < list.size(); ++i) {
      for (int64_t j = 0; j < 90; ++j) list[i].prompt.push_back(list[i].prompt[static_cast<size_t>(j) % 5]);
      auto& sampling = list[i].sampling;
      sampling.temperature = 1.0, sampling.seed = i, sampling.logprobs = 3, sampling.prompt_logprobs = 1,
      sampling.batch_invariant = repeatable;
    }
    return list;
  };
  auto bits = [](const Completion& completion) {
    std::vector<std::pair<text::TokenId, float>> all;
    for (const auto* list : {&completion.logprobs, &completion.prompt_logprobs})
      for (const auto& position : *list) all.emplace_back(position.chosen.token, position.chosen.logprob);
    return all;
  };
  auto company = asked(true);
  for (int copies = 0; copies < 12; ++copies) std::ranges::copy(asked(false), std::back_inserter(company));
  for (int64_t guesses : {0, 3}) {
    EngineConfig config{.max_num_batched_tokens = 160, .speculative_tokens = guesses};
    auto crowded = engine(config);
    auto together = generate(crowded, company);
    for (size_t i = 0; i < 4; ++i) {
      auto quiet = engine({.max_num_batched_tokens = 160});
      EXPECT_EQ(bits(generate(quiet, {company[i]})[0]), bits(together[i])) << i << ", " << guesses << " guesses";
    }
  }
}

TEST_F(EngineTest, StopsAndLengths) {
  auto request = requests(40)[1];
  auto whole = expected(request);
  auto ask = [&](auto change) {
    auto asked = request;
    change(asked.sampling);
    auto engine = this->engine();
    return generate(engine, {asked})[0];
  };
  auto ended = ask([&](auto& sampling) { sampling.eos_token_ids = {whole[7]}; });
  auto first = static_cast<size_t>(std::ranges::find(whole, whole[7]) - whole.begin());
  EXPECT_EQ(ended.tokens, Tokens(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(first)));
  EXPECT_EQ(ended.finish, FinishReason::stop);
  auto stopped = ask([&](auto& sampling) { sampling.stop_tokens = {whole[7]}; });
  EXPECT_EQ(stopped.tokens.size(), first + 1);
  EXPECT_EQ(ask([&](auto& sampling) { sampling.eos_token_ids = {whole[7]}, sampling.ignore_eos = true; }).finish,
            FinishReason::length);
  EXPECT_EQ(ask([&](auto& sampling) { sampling.eos_token_ids = {whole[7]}, sampling.min_tokens = 30; }).tokens.size() >= 30,
            true);
  auto text = ask([](auto&) {}).text;
  ASSERT_GT(text.size(), 8u);
  auto word = text.substr(4, 2);
  auto cut = ask([&](auto& sampling) { sampling.stop = {word}; });
  EXPECT_EQ(cut.text, text.substr(0, text.find(word)));
  EXPECT_EQ(cut.stop_string, word);
}

TEST_F(EngineTest, LogprobsOfAnswerAndPrompt) {
  auto request = requests(5)[1];
  request.sampling.logprobs = 3;
  request.sampling.prompt_logprobs = 2;
  auto engine = this->engine({.max_num_batched_tokens = 3});
  auto found = generate(engine, {request})[0];
  ASSERT_EQ(found.logprobs.size(), found.tokens.size());
  for (size_t i = 0; i < found.tokens.size(); ++i) {
    EXPECT_EQ(found.logprobs[i].chosen.token, found.tokens[i]);
    EXPECT_EQ(found.logprobs[i].token_rank, 1) << "greedy";
    EXPECT_EQ(found.logprobs[i].top.size(), 3u);
  }
  EXPECT_EQ(found.prompt_logprobs.size(), request.prompt.size() - 1);
}

TEST_F(EngineTest, ConstrainedAnswersObey) {
  ConstraintCompiler compiler(*tokenizer_, {kEnd});
  auto request = requests(60)[1];
  request.sampling.eos_token_ids = {kEnd};
  request.sampling.constraint = compiler.regex("(yes|no), [0-9]{3}").or_throw(ExitCode::failure, "regex");
  for (double temperature : {0.0, 2.0}) {
    request.sampling.temperature = temperature;
    auto engine = this->engine({.speculative_tokens = 2});
    auto found = generate(engine, {request})[0];
    EXPECT_TRUE(found.text.starts_with("yes, ") || found.text.starts_with("no, ")) << found.text;
    EXPECT_EQ(found.finish, FinishReason::stop);
  }
}

TEST_F(EngineTest, CancelFreesAtOnceAndIsReported) {
  auto engine = this->engine();
  auto list = requests();
  auto id = engine.add(list[0]);
  engine.add(list[1]);
  engine.step();
  auto used = engine.stats().blocks_used;
  engine.cancel(id);
  EXPECT_LT(engine.stats().blocks_used, used);
  bool reported = false;
  while (!engine.idle())
    for (const auto& output : engine.step()) reported |= output.id == id && output.finish == FinishReason::cancelled;
  EXPECT_TRUE(reported);
}

TEST_F(EngineTest, PriorityGoesFirst) {
  auto engine = this->engine({.max_num_seqs = 1});
  auto list = requests(3, 3);
  list[2].priority = -1;
  std::map<RequestId, int> order;
  std::vector<RequestId> ids;
  for (auto& request : list) ids.push_back(engine.add(request));
  int place = 0;
  while (!engine.idle())
    for (const auto& output : engine.step())
      if (output.finish != FinishReason::none) order[output.id] = place++;
  EXPECT_LT(order[ids[2]], order[ids[0]]);
  EXPECT_LT(order[ids[0]], order[ids[1]]);
}

TEST_F(EngineTest, NewWeightsAndSleepComputeAgain) {
  auto request = requests(12)[0];
  auto before = expected(request);
  auto engine = this->engine();
  EXPECT_EQ(answers(engine, {request})[0], before);
  {
    at::NoGradGuard no_grad;
    for (auto& parameter : model_->parameters()) parameter.value->mul_(1.3);
  }
  engine.update_weights(7);
  auto after = expected(request);
  EXPECT_NE(after, before);
  EXPECT_EQ(answers(engine, {request})[0], after);
  EXPECT_EQ(engine.stats().weights_version, 7);
  engine.add(request);
  engine.step();
  engine.sleep();
  EXPECT_TRUE(engine.step().empty());
  engine.wake();
  Tokens found;
  while (!engine.idle())
    for (const auto& output : engine.step()) found.insert(found.end(), output.tokens.begin(), output.tokens.end());
  EXPECT_EQ(found, Tokens(after.begin() + 1, after.end())) << "one token came before the sleep";
}

TEST_F(EngineTest, RefusesWhatCannotRun) {
  auto engine = this->engine({.block_size = 4, .kv_cache_tokens = 40});
  EXPECT_THROW(engine.add({}), UserError);
  EXPECT_THROW(engine.add({.prompt = Tokens(300, 1)}), UserError);
  EXPECT_THROW(engine.add({.prompt = Tokens(50, 1)}), UserError) << "beyond the cache";
  EXPECT_THROW(engine.add({.prompt = {1}, .adapter = "nobody"}), UserError);
  EXPECT_THROW(engine.add({.prompt = {1, 5000}}), UserError);
  EXPECT_TRUE(engine.idle());
}

TEST_F(EngineTest, RoundedWeightsStayClose) {
  auto request = requests(6)[1];
  request.sampling.logprobs = 0;
  auto exact = this->engine();
  auto reference = generate(exact, {request})[0];
  auto engine = this->engine({.quant_bits = 8});
  auto rounded = generate(engine, {request})[0];
  EXPECT_NEAR(rounded.logprobs[0].chosen.logprob, reference.logprobs[0].chosen.logprob, 0.2);
}

}  // namespace
}  // namespace hone::engine
