#include "hone/tinker/model/forward_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "hone/base/rng.h"
#include "hone/io/safetensors.h"
#include "hone/tinker/wire/request_error.h"
#include "model/tiny_json.h"
#include "train/scratch_folder.h"

namespace hone::tinker {
namespace {

using testing::HasSubstr;

constexpr int64_t kVocabulary = 60, kMaxLength = 64;

std::unique_ptr<model::CausalLM> tiny_model() {
  const auto config = model::tiny_json(
      "Qwen2ForCausalLM", {{"vocab_size", kVocabulary}, {"max_position_embeddings", kMaxLength}, {"initializer_range", 0.1}});
  return model::CausalLM::random(model::parse_config(config, "test"), 4);
}

LossInput column(std::vector<double> values) {
  const auto rows = static_cast<int64_t>(values.size());
  return {.values = std::move(values), .rows = rows, .width = 1, .is_matrix = false};
}

ForwardBackwardRequest request(uint64_t seed, size_t count, bool forward_only = false) {
  Rng rng(seed);
  ForwardBackwardRequest made{.model_id = "", .data = {}, .loss_fn = "cross_entropy", .config = {}, .forward_only = forward_only};
  for (size_t i = 0; i < count; ++i) {
    std::vector<double> targets, weights;
    Datum datum;
    for (size_t j = 0; j < 5 + 7 * i; ++j) {
      datum.tokens.push_back(static_cast<int64_t>(rng.below(kVocabulary)));
      targets.push_back(static_cast<double>(rng.below(kVocabulary)));
      weights.push_back(static_cast<double>(rng.below(3)) - 0.5);
    }
    datum.inputs = {{"target_tokens", column(std::move(targets))}, {"weights", column(std::move(weights))}};
    made.data.push_back(std::move(datum));
  }
  return made;
}

struct Result {
  double loss = 0;
  std::vector<float> logprobs;
  std::map<std::string, Tensor> weights;  // behind one step, which moves each by its gradient
};

class ForwardBatchTest : public testing::Test {
 protected:
  // Runs of different ranks and layers, with updates that are not zero.
  std::unique_ptr<TrainingRun> run(const std::string& name, const RunConfig& config) {
    auto made = std::make_unique<TrainingRun>(*model_, name, config, "tiny");
    at::NoGradGuard no_grad;
    at::manual_seed(config.rank);
    for (const auto& [parameter, tensor] : made->trainable()) Tensor(tensor).copy_(at::randn_like(tensor) * 0.05);
    return made;
  }

  std::vector<std::unique_ptr<TrainingRun>> runs() {
    std::vector<std::unique_ptr<TrainingRun>> made;
    made.push_back(run("s:train:0", {.rank = 4, .seed = 1}));
    made.push_back(run("s:train:1", {.rank = 16, .seed = 2, .train_mlp = false}));
    made.push_back(run("t:train:0", {.rank = 7, .seed = 3, .train_attn = false, .train_unembed = false}));
    return made;
  }

  void compute(std::vector<ForwardTask>& tasks, int64_t batch_tokens) {
    ForwardBatch batch(*model_, batch_tokens);
    for (auto& task : tasks) batch.add(task);
    while (batch.step()) {
    }
  }

  static Result result_of(const ForwardTask& task, TrainingRun& run) {
    Result result{.loss = task.loss_sum(), .logprobs = {}, .weights = {}};
    for (const auto& datum : task.logprobs())
      result.logprobs.insert(result.logprobs.end(), datum.values.begin(), datum.values.end());
    run.optim_step({.learning_rate = 1e6, .beta1 = 0, .beta2 = 0, .eps = 1e6});
    for (const auto& [name, tensor] : run.trainable()) result.weights[name] = tensor.detach().clone();
    return result;
  }

  // Together in passes of so many tokens, or one run after the other.
  std::vector<Result> results(int64_t batch_tokens, bool together) {
    auto all = runs();
    std::vector<Result> found;
    std::vector<ForwardTask> tasks;
    for (size_t i = 0; i < all.size(); ++i) {
      tasks.emplace_back(*model_, *all[i], request(i + 10, 2 + i), kMaxLength);
      if (together) continue;
      compute(tasks, batch_tokens);
      found.push_back(result_of(tasks.front(), *all[i]));
      tasks.clear();
    }
    if (!together) return found;
    compute(tasks, batch_tokens);
    for (size_t i = 0; i < all.size(); ++i) found.push_back(result_of(tasks[i], *all[i]));
    return found;
  }

  // Sums in another order: gradients differ by roundings of their largest elements.
  static void expect_same_weights(const Result& found, const Result& wanted) {
    ASSERT_EQ(found.weights.size(), wanted.weights.size());
    for (const auto& [name, tensor] : wanted.weights)
      EXPECT_LE((found.weights.at(name) - tensor).abs().max().item<double>(), 1e-5 * (1 + tensor.abs().max().item<double>()))
          << name;
  }

  std::unique_ptr<model::CausalLM> model_ = tiny_model();
};

TEST_F(ForwardBatchTest, MixedAdaptersEqualEachAlone) {
  const auto alone = results(1 << 20, false);
  for (int64_t batch_tokens : {int64_t{1} << 20, int64_t{40}, int64_t{1}}) {
    const auto mixed = results(batch_tokens, true);
    ASSERT_EQ(mixed.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_NEAR(mixed[i].loss, alone[i].loss, 1e-6 * std::abs(alone[i].loss));
      ASSERT_EQ(mixed[i].logprobs.size(), alone[i].logprobs.size());
      for (size_t j = 0; j < alone[i].logprobs.size(); ++j) EXPECT_NEAR(mixed[i].logprobs[j], alone[i].logprobs[j], 1e-5);
      ASSERT_EQ(mixed[i].weights.size(), alone[i].weights.size());
      expect_same_weights(mixed[i], alone[i]);
    }
  }
}

// Known before there is a run: weights, gradients and two moments of float32.
TEST_F(ForwardBatchTest, RunsKnowTheirBytes) {
  const auto mixture = model::CausalLM::random(
      model::parse_config(model::tiny_json("Qwen3MoeForCausalLM", {{"head_dim", 8}, {"num_experts", 4}}), "test"), 4);
  for (auto* model : {model_.get(), mixture.get()})
    for (const RunConfig& config : {RunConfig{.rank = 4}, RunConfig{.rank = 3, .train_unembed = false}}) {
      const TrainingRun run(*model, "s:train:0", config, "tiny");
      int64_t elements = 0;
      for (const auto& [name, tensor] : run.trainable()) elements += tensor.numel();
      EXPECT_EQ(run.bytes(), 16 * elements);
      EXPECT_EQ(run.trains_experts(), model == mixture.get());
    }
}

// Files have the optimizer's state by the names of the factors, whatever layout they have in memory.
TEST_F(ForwardBatchTest, OptimizerStateIsSavedByName) {
  const train::ScratchFolder folder;
  auto all = runs();
  auto step = [&](TrainingRun& run) {
    std::vector<ForwardTask> tasks;
    tasks.emplace_back(*model_, run, request(10, 2), kMaxLength);
    compute(tasks, 1 << 20);
    run.optim_step({.learning_rate = 0.01});
    std::map<std::string, Tensor> weights;
    for (const auto& [name, tensor] : run.trainable()) weights[name] = tensor.detach().clone();
    return weights;
  };
  step(*all[1]);
  all[1]->save_weights(folder.path());
  all[1]->save_optimizer(folder.path());
  io::SafetensorsFile saved(folder.path() / "optimizer.safetensors");
  std::set<std::string> names;
  for (const auto& entry : saved.entries()) names.insert(entry.name);
  EXPECT_EQ(names.size(), 1 + 2 * all[1]->trainable().size());
  for (const auto& [name, tensor] : all[1]->trainable()) {
    EXPECT_TRUE(names.contains("exp_avg/" + name)) << name;
    EXPECT_TRUE(names.contains("exp_avg_sq/" + name)) << name;
  }
  const auto wanted = step(*all[1]);
  auto again = run("u:train:0", {.rank = 16, .seed = 9, .train_mlp = false});
  again->load(folder.path(), true);
  const auto found = step(*again);
  for (const auto& [name, tensor] : wanted) EXPECT_TRUE(at::equal(found.at(name), tensor)) << name;
  EXPECT_THROW(all[0]->load(folder.path(), true), RequestError) << "another rank";
}

TEST_F(ForwardBatchTest, AFailureIsOfItsRunAlone) {
  const auto alone = results(1 << 20, false);
  auto all = runs();
  auto broken = request(11, 3);
  broken.data[1].inputs["weights"].values[0] = std::nan("");
  std::vector<ForwardTask> tasks;
  tasks.emplace_back(*model_, *all[0], request(10, 2), kMaxLength);
  tasks.emplace_back(*model_, *all[1], std::move(broken), kMaxLength);
  tasks.emplace_back(*model_, *all[2], request(12, 4), kMaxLength);
  compute(tasks, 1 << 20);
  EXPECT_THAT(tasks[1].error(), HasSubstr("the loss is NaN"));
  EXPECT_TRUE(tasks[1].is_users_fault());
  for (size_t i : {size_t{0}, size_t{2}}) {
    EXPECT_FALSE(tasks[i].failed());
    const auto found = result_of(tasks[i], *all[i]);
    EXPECT_NEAR(found.loss, alone[i].loss, 1e-6 * std::abs(alone[i].loss));
    expect_same_weights(found, alone[i]);
  }
}

TEST_F(ForwardBatchTest, ForwardAloneTakesNoGradient) {
  auto all = runs();
  std::vector<ForwardTask> tasks;
  tasks.emplace_back(*model_, *all[0], request(10, 2, true), kMaxLength);
  tasks.emplace_back(*model_, *all[1], request(11, 2), kMaxLength);
  compute(tasks, 1 << 20);
  EXPECT_FALSE(all[0]->has_gradients());
  EXPECT_TRUE(all[1]->has_gradients());
  EXPECT_EQ(tasks[0].logprobs().size(), 2u);
  EXPECT_FALSE(tasks[0].failed());
}

TEST_F(ForwardBatchTest, DataThatDoNotFitAreErrors) {
  auto all = runs();
  auto refused = [&](auto change, const char* why) {
    auto wrong = request(10, 2);
    change(wrong);
    try {
      ForwardTask task(*model_, *all[0], std::move(wrong), kMaxLength);
      ADD_FAILURE() << "accepted: " << why;
    } catch (const RequestError& problem) {
      EXPECT_THAT(problem.what(), HasSubstr(why));
    }
  };
  refused([](auto& wrong) { wrong.data.clear(); }, "holds no data");
  refused([](auto& wrong) { wrong.data[0].tokens[0] = kVocabulary; }, "token 60");
  refused([](auto& wrong) { wrong.data[0].inputs["target_tokens"].values[0] = -1; }, "token -1");
  refused([](auto& wrong) { wrong.data[1].tokens.assign(kMaxLength + 1, 0); }, "the context holds 64");
  refused([](auto& wrong) { wrong.data[1].inputs.erase("weights"); }, "needs \"weights\"");
  refused([](auto& wrong) { wrong.loss_fn = "hinge"; }, "expected one of cross_entropy");
}

}  // namespace
}  // namespace hone::tinker
