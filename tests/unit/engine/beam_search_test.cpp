#include "hone/engine/beam_search.h"

#include <regex>
#include <set>

#include "engine/engine_fixture.h"
#include "hone/engine/constraints/compiler.h"

namespace hone::engine {
namespace {

class BeamSearchTest : public EngineTest {
 protected:
  static std::vector<Request> with_beams(int64_t beams, int64_t tokens = 20) {
    auto list = requests(tokens, 4);
    for (auto& request : list) request.sampling.num_beams = beams, request.sampling.eos_token_ids = {17, 40, 99};
    return list;
  }

  std::vector<RequestOutput> all_answers(Engine& engine, const Request& request) {
    engine.add(request);
    std::vector<RequestOutput> found;
    while (!engine.idle())
      for (auto& output : engine.step()) found.push_back(std::move(output));
    return found;
  }

  // Log-probability of an answer, each token by the full model.
  double log_probability(const Request& request, const Tokens& answer) {
    auto asked = request;
    asked.prompt.insert(asked.prompt.end(), answer.begin(), answer.end());
    asked.sampling = {.max_tokens = 1, .prompt_logprobs = 0};
    auto engine = this->engine();
    auto positions = generate(engine, {asked})[0].prompt_logprobs;
    double sum = 0;
    for (size_t i = request.prompt.size(); i < asked.prompt.size(); ++i) sum += positions[i - 1].chosen.logprob;
    return sum;
  }
};

TEST_F(BeamSearchTest, EveryWayOfComputingGivesTheSameAnswers) {
  auto plain = this->engine();
  auto wanted = answers(plain, with_beams(4));
  for (auto [name, config] : std::vector<std::pair<std::string, EngineConfig>>{
           {"no prefix cache", {.enable_prefix_caching = false}},
           {"prompts in parts", {.max_num_batched_tokens = 5}},
           {"one step at a time", {.max_num_batched_tokens = 1}},
           {"blocks of one", {.block_size = 1}},
           {"one search at a time", {.max_num_seqs = 4}},
           {"searches that share", {.max_num_seqs = 6}},
           {"tiny cache", {.block_size = 4, .kv_cache_tokens = 84}},
           {"tiny cache, parts", {.block_size = 4, .kv_cache_tokens = 84, .max_num_batched_tokens = 7}},
           {"guesses", {.speculative_tokens = 4}}}) {
    auto engine = this->engine(config);
    EXPECT_EQ(answers(engine, with_beams(4)), wanted) << name;
    EXPECT_EQ(engine.stats().blocks_used, 0) << name;
    EXPECT_EQ(engine.stats().preemptions > 0, name.starts_with("tiny")) << name;
  }
}

TEST_F(BeamSearchTest, AWiderSearchFindsNothingWorse) {
  for (auto request : with_beams(1, 6)) {
    request.sampling.eos_token_ids.clear();  // answers of one length compare by their probability alone
    auto engine = this->engine();
    double greedy = log_probability(request, generate(engine, {request})[0].tokens);
    request.sampling.num_beams = 40;
    double best = log_probability(request, generate(engine, {request})[0].tokens);
    EXPECT_GE(best, greedy - 1e-4);
  }
}

TEST_F(BeamSearchTest, AnswersComeBestFirstAndDiffer) {
  auto request = with_beams(6, 8)[1];
  request.sampling.num_return_sequences = 5;
  request.sampling.eos_token_ids.clear();
  request.sampling.logprobs = 2;
  auto engine = this->engine();
  auto found = all_answers(engine, request);
  ASSERT_EQ(found.size(), 5u);
  std::set<Tokens> different;
  double before = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].index, i);
    EXPECT_EQ(found[i].finish, FinishReason::length);
    ASSERT_EQ(found[i].logprobs.size(), found[i].tokens.size());
    double sum = 0;
    for (const auto& position : found[i].logprobs) sum += position.chosen.logprob;
    EXPECT_NEAR(sum, log_probability(request, found[i].tokens), 1e-3);
    if (i > 0) {
      EXPECT_LE(sum, before);
    }
    before = sum;
    different.insert(found[i].tokens);
  }
  EXPECT_EQ(different.size(), found.size());
}

TEST_F(BeamSearchTest, ConstraintsStopsAndSeedsHold) {
  ConstraintCompiler compiler(*tokenizer_, {kEnd});
  auto request = requests(30)[1];
  request.sampling.num_beams = 3;
  request.sampling.eos_token_ids = {kEnd};
  request.sampling.constraint = compiler.regex("(yes|no), [0-9]{3}").or_throw(ExitCode::failure, "regex");
  auto engine = this->engine();
  auto text = generate(engine, {request})[0].text;
  EXPECT_TRUE(std::regex_match(text, std::regex("(yes|no), [0-9]{3}"))) << text;
  request.sampling.stop = {", "};
  EXPECT_TRUE((std::set<std::string>{"yes", "no"}).contains(generate(engine, {request})[0].text));
  request.sampling.stop.clear();
  request.sampling.temperature = 3;
  std::set<std::string> drawn;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    request.sampling.seed = seed;
    auto first = generate(engine, {request})[0].text;
    EXPECT_EQ(generate(engine, {request})[0].text, first) << "a seed repeats";
    drawn.insert(first);
  }
  EXPECT_GT(drawn.size(), 1u) << "beams that are drawn differ with the seed";
}

TEST_F(BeamSearchTest, CancelledSearchesLeaveNothing) {
  auto engine = this->engine();
  auto request = with_beams(4)[0];
  request.sampling.num_return_sequences = 2;
  auto id = engine.add(request);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(engine.step().empty()) << "nothing is told before the search is over";
  engine.cancel(id);
  EXPECT_EQ(engine.stats().blocks_used, 0);
  auto reports = engine.step();
  ASSERT_EQ(reports.size(), 2u);
  for (const auto& report : reports) EXPECT_EQ(report.finish, FinishReason::cancelled);
  EXPECT_TRUE(engine.idle());
}

TEST_F(BeamSearchTest, RefusesWhatCannotRun) {
  auto engine = this->engine({.max_num_seqs = 4});
  Request request{.prompt = {1}};
  request.sampling.num_beams = 5;
  EXPECT_THROW(engine.add(request), UserError);
  request.sampling.num_beams = 2;
  request.sampling.num_return_sequences = 3;
  EXPECT_THROW(engine.add(request), UserError);
}

}  // namespace
}  // namespace hone::engine
