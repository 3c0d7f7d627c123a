#include <future>
#include <thread>

#include "engine/adapter_fixture.h"
#include "hone/engine/constraints/constraint.h"

namespace hone::engine {
namespace {

// Several replicas of one model: the answers are those of a single engine, whichever replica gives them.
class ReplicasTest : public AdapterTest {
 protected:
  Engine replicas(size_t count, const EngineConfig& config = {}) {
    return Engine(std::vector<model::CausalLM*>(count, model_.get()), tokenizer_, config);
  }
};

TEST_F(ReplicasTest, AnswerAsOneEngineDoes) {
  auto list = requests(20, 9);
  for (size_t i = 0; i < list.size(); ++i) {
    list[i].sampling.temperature = i % 3 == 1 ? 1.0 : 0.0;
    list[i].sampling.seed = i;
    if (i % 3 == 2) list[i].sampling.num_beams = 3;
  }
  auto one = engine();
  auto wanted = answers(one, list);
  for (size_t count : {2, 3})
    for (auto config : {EngineConfig{}, EngineConfig{.block_size = 4, .kv_cache_tokens = 400, .max_num_batched_tokens = 7}}) {
      auto several = replicas(count, config);
      for (int again = 0; again < 2; ++again) EXPECT_EQ(answers(several, list), wanted) << count;
      EXPECT_TRUE(several.idle());
      auto stats = several.stats(), alone = one.stats();
      EXPECT_EQ(stats.generated_tokens, 2 * alone.generated_tokens) << "figures are summed";
      EXPECT_EQ(stats.blocks_used, 0);
    }
}

TEST_F(ReplicasTest, RequestsGoWhereLeastIsToDo) {
  std::vector<Request> same(4, requests()[2]);
  auto one = engine({.block_size = 4}), two = replicas(2, {.block_size = 4});
  answers(one, same), answers(two, same);
  EXPECT_EQ(one.stats().cached_tokens, 3 * 32) << "three find what the first computed";
  EXPECT_EQ(two.stats().cached_tokens, 2 * 32) << "two computed it, and one found it beside each";
  for (auto& request : same) request.group = 7;
  auto grouped = replicas(2, {.block_size = 4});
  for (int64_t again = 1; again < 3; ++again) {
    answers(grouped, same);
    EXPECT_GE(grouped.stats().cached_tokens, again * 3 * 32) << "one replica computed it for its group";
  }
  std::vector<Request> many(8, same[0]);
  auto balanced = replicas(2, {.block_size = 4, .max_num_seqs = 1});
  answers(balanced, many);
  EXPECT_EQ(balanced.stats().cached_tokens, 6 * 32) << "a group that is a batch ahead goes to the other replica too";
}

TEST_F(ReplicasTest, CancelledRequestsAreReportedOnceAndTheRestGoesOn) {
  auto engine = replicas(2);
  auto list = requests(20, 4);
  auto wanted = expected(list[1]);
  auto endless = list[0];
  endless.sampling.max_tokens = 200;
  auto gone = engine.add(endless), other = engine.add(list[1]);
  engine.cancel(gone);
  engine.cancel(12345);
  Tokens found;
  int cancelled = 0;
  while (!engine.idle())
    for (auto& output : engine.step()) {
      if (output.id == other) found.insert(found.end(), output.tokens.begin(), output.tokens.end());
      cancelled += output.id == gone && output.finish == FinishReason::cancelled;
    }
  EXPECT_EQ(cancelled, 1);
  EXPECT_EQ(found, wanted);
  EXPECT_EQ(engine.stats().running + engine.stats().waiting, 0);
}

TEST_F(ReplicasTest, SleepAndChangedWeightsReachAllOfThem) {
  auto engine = replicas(2);
  std::vector<Request> same(4, requests()[2]);
  auto before = answers(engine, same);
  {
    at::NoGradGuard no_grad;
    for (auto& parameter : model_->parameters())
      if (parameter.name.find("o_proj") != std::string::npos) parameter.value->mul_(-2);
  }
  engine.update_weights(7);
  auto after = answers(engine, same);
  auto wanted = expected(same[0]);
  EXPECT_NE(before[0], wanted);
  for (const auto& tokens : after) EXPECT_EQ(tokens, wanted);
  engine.sleep();
  EXPECT_TRUE(engine.stats().asleep);
  auto waiting = engine.add(same[0]);
  EXPECT_TRUE(engine.step().empty()) << "nothing is computed, and nobody waits for it";
  engine.cancel(waiting);
  EXPECT_EQ(engine.step().at(0).finish, FinishReason::cancelled);
  engine.wake();
  EXPECT_EQ(answers(engine, same), after);
}

TEST_F(ReplicasTest, AdaptersComeAndGoOnAllOfThem) {
  const auto root = saved_adapter("a", 5);
  const auto [request, adapted, wanted] = asked_of(root);
  auto two = replicas(2);
  two.load_adapter("a", root);
  EXPECT_EQ(answers(two, {adapted, adapted, request, request}), (std::vector{wanted[1], wanted[1], wanted[0], wanted[0]}));
  two.unload_adapter("a");
  EXPECT_THROW(two.add(adapted), UserError);
  EXPECT_EQ(answers(two, {request, request}), (std::vector{wanted[0], wanted[0]}));
}

// Who waits for one replica can be called away to give another something to do.
TEST_F(ReplicasTest, ANudgeEndsTheWaitForALongStep) {
  struct Held : Constraint {
    mutable std::promise<void> reached;
    std::shared_future<void> go_on;
    mutable bool first = true;
    std::shared_ptr<const TokenBitmask> mask(State) const override {
      if (std::exchange(first, false)) reached.set_value(), go_on.wait();
      return std::make_shared<TokenBitmask>(TokenBitmask{std::vector<uint64_t>(64, ~0ull)});
    }
    State next(State state, text::TokenId) const override { return state; }
  };
  auto engine = replicas(2);
  auto list = requests(20, 2);
  auto wanted = expected(list[1]);
  auto held = std::make_shared<Held>();
  std::promise<void> release;
  held->go_on = release.get_future();
  list[0].sampling.constraint = held;
  engine.add(list[0]);
  held->reached.get_future().wait();
  std::thread visitor([&] { engine.wake_step(); });
  EXPECT_TRUE(engine.step().empty()) << "the step goes on, and its caller is free";
  visitor.join();
  auto second = engine.add(list[1]);
  Tokens found;
  for (bool done = false; !done;)
    for (auto& output : engine.step()) {
      EXPECT_EQ(output.id, second) << "the other one is still held";
      found.insert(found.end(), output.tokens.begin(), output.tokens.end());
      done = output.finish != FinishReason::none;
    }
  EXPECT_EQ(found, wanted);
  release.set_value();
  while (!engine.idle()) engine.step();
}

// A copy whose step throws ends its own requests; those of the others go on, and it takes new ones.
TEST_F(ReplicasTest, AFailureCostsTheRequestsOfItsCopy) {
  struct Broken : Constraint {
    std::shared_ptr<const TokenBitmask> mask(State) const override { throw std::runtime_error("broken"); }
    State next(State state, text::TokenId) const override { return state; }
  };
  auto engine = replicas(2);
  auto list = requests(20, 4);
  auto wanted = expected(list[3]), untouched = expected(list[1]);
  list[0].sampling.constraint = std::make_shared<Broken>();
  auto broken = engine.add(list[0]), other = engine.add(list[1]);
  Tokens found;
  bool failed = false;
  while (!engine.idle())
    for (auto& output : engine.step()) {
      if (output.id == broken && output.finish == FinishReason::error) failed = output.model_broken;
      if (output.id == other) found.insert(found.end(), output.tokens.begin(), output.tokens.end());
    }
  EXPECT_TRUE(failed);
  EXPECT_EQ(found, untouched);
  EXPECT_EQ(answers(engine, {list[3], list[3]}), (std::vector{wanted, wanted}));
}

}  // namespace
}  // namespace hone::engine
