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
      EXPECT_EQ(run.shares_passes(), model != mixture.get());
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

ForwardBackwardRequest with_widths(std::vector<int64_t> widths) {
  auto made = request(20, widths.size());
  Rng rng(5);
  for (size_t i = 0; i < widths.size(); ++i)
    for (auto& [name, input] : made.data[i].inputs) {
      input.width = widths[i];
      input.is_matrix = widths[i] > 1;
      input.values.clear();
      for (int64_t j = 0; j < input.rows * input.width; ++j)
        input.values.push_back(static_cast<double>(rng.below(kVocabulary)) * (name == "weights" ? 0.01 : 1));
    }
  return made;
}

// The same targets, one at a time.
ForwardBackwardRequest one_at_a_time(const ForwardBackwardRequest& several) {
  auto made = several;
  made.data.clear();
  for (const auto& datum : several.data)
    for (int64_t k = 0; k < datum.inputs.at("weights").width; ++k) {
      Datum one{.tokens = datum.tokens, .inputs = {}};
      for (const auto& [name, input] : datum.inputs) {
        std::vector<double> values;
        for (int64_t row = 0; row < input.rows; ++row) values.push_back(input.values[static_cast<size_t>(row * input.width + k)]);
        one.inputs[name] = column(std::move(values));
      }
      made.data.push_back(std::move(one));
    }
  return made;
}

// In any mixture of widths, and beside another run with an adapter on the head, or without.
TEST_F(ForwardBatchTest, SeveralTargetsEqualOneAtATime) {
  const auto several = with_widths({3, 1, 4, 3});
  for (size_t other : {size_t{1}, size_t{2}}) {
    std::vector<Result> results;
    for (bool at_once : {true, false}) {
      auto all = runs();
      std::vector<ForwardTask> tasks;
      tasks.emplace_back(*model_, *all[0], at_once ? several : one_at_a_time(several), kMaxLength);
      tasks.emplace_back(*model_, *all[other], request(11, 3), kMaxLength);
      compute(tasks, 1 << 20);
      for (size_t i : {size_t{0}, size_t{1}}) results.push_back(result_of(tasks[i], *all[i == 0 ? 0 : other]));
    }
    for (size_t i : {size_t{0}, size_t{1}}) {
      EXPECT_NEAR(results[i].loss, results[i + 2].loss, 1e-5 * std::abs(results[i].loss));
      expect_same_weights(results[i], results[i + 2]);
    }
    std::vector<float> ordered;  // position by position
    size_t next = 0;
    for (const auto& datum : several.data) {
      const auto rows = datum.tokens.size(), width = static_cast<size_t>(datum.inputs.at("weights").width);
      for (size_t row = 0; row < rows; ++row)
        for (size_t k = 0; k < width; ++k) ordered.push_back(results[2].logprobs[next + k * rows + row]);
      next += rows * width;
    }
    ASSERT_EQ(results[0].logprobs.size(), ordered.size());
    for (size_t i = 0; i < ordered.size(); ++i) EXPECT_NEAR(results[0].logprobs[i], ordered[i], 1e-5);
  }
}

// Alone and beside other runs, whose rows keep their adapters.
TEST_F(ForwardBatchTest, ABaseForwardHasNoAdapter) {
  auto all = runs();
  auto base = request(10, 2, true);
  base.config["disable_lora"] = 1;
  std::vector<ForwardTask> alone, both, own;
  alone.emplace_back(*model_, *all[0], base, kMaxLength);
  compute(alone, 1 << 20);
  both.emplace_back(*model_, *all[0], base, kMaxLength);
  both.emplace_back(*model_, *all[1], request(10, 2, true), kMaxLength);
  compute(both, 1 << 20);
  own.emplace_back(*model_, *all[1], request(10, 2, true), kMaxLength);
  compute(own, 1 << 20);
  EXPECT_NEAR(both[0].loss_sum(), alone[0].loss_sum(), 1e-5);
  EXPECT_NEAR(both[1].loss_sum(), own[0].loss_sum(), 1e-5);
  EXPECT_GT(std::abs(own[0].loss_sum() - alone[0].loss_sum()), 1e-3);
  all.clear();  // the model as it was
  auto fresh = std::make_unique<TrainingRun>(*model_, "u:train:0", RunConfig{.rank = 2}, "tiny");
  std::vector<ForwardTask> untrained;
  untrained.emplace_back(*model_, *fresh, request(10, 2, true), kMaxLength);
  compute(untrained, 1 << 20);
  EXPECT_NEAR(untrained[0].loss_sum(), alone[0].loss_sum(), 1e-5);
}

// The same loss and gradient whether pairs share a pass or not; no pair is divided.
TEST_F(ForwardBatchTest, PairsAreAMeanOverTheRequest) {
  auto pairs = request(30, 6);
  pairs.loss_fn = "importance_sampling";
  pairs.config = {{"dpo_beta", 0.5}, {"dpo_sft_weight", 0.3}};
  for (auto& datum : pairs.data) {
    datum.inputs["ref_logps"] = column(std::vector<double>(datum.tokens.size(), -3.5));
    for (size_t j = 0; j < datum.tokens.size(); ++j) datum.inputs["weights"].values[j] = j < 3 ? 0 : 1;
  }
  std::vector<Result> results;
  for (int64_t batch_tokens : {int64_t{1} << 20, int64_t{1}}) {
    auto all = runs();
    std::vector<ForwardTask> tasks;
    tasks.emplace_back(*model_, *all[0], pairs, kMaxLength);
    compute(tasks, batch_tokens);
    ASSERT_FALSE(tasks[0].failed()) << tasks[0].error();
    const auto metrics = tasks[0].pairs().means(":mean");
    EXPECT_EQ(tasks[0].pairs().pairs, 3);
    EXPECT_NEAR(metrics.at("rewards/margins:mean"), metrics.at("rewards/chosen:mean") - metrics.at("rewards/rejected:mean"),
                1e-6);
    double loss = 0, tokens = 0, chosen = 0;
    for (size_t i = 0; i < 6; i += 2) {
      double margin = 0;
      for (size_t which : {i, i + 1}) {
        const auto& logprobs = tasks[0].logprobs()[which].values;
        double sum = 0;
        for (size_t j = 3; j < logprobs.size(); ++j) sum += logprobs[j];
        const auto count = static_cast<double>(logprobs.size()) - 3;
        margin += (which == i ? 1 : -1) * (sum + 3.5 * count);
        if (which == i) chosen += sum, tokens += count;
      }
      loss += std::log1p(std::exp(-0.5 * margin)) / 3;
    }
    EXPECT_NEAR(tasks[0].loss_sum(), loss - 0.3 * chosen / tokens, 1e-4);
    results.push_back(result_of(tasks[0], *all[0]));
  }
  EXPECT_NEAR(results[0].loss, results[1].loss, 1e-5);
  expect_same_weights(results[0], results[1]);
}

// The masks follow from the run's seed and the request's number.
TEST_F(ForwardBatchTest, DropoutIsRepeatable) {
  const auto loss = [&](int64_t seq, double dropout) {
    auto one = run("d:train:0", {.rank = 4, .seed = 1, .train_unembed = false, .dropout = dropout});
    auto data = request(10, 2);
    data.seq_id = seq;
    std::vector<ForwardTask> tasks;
    tasks.emplace_back(*model_, *one, std::move(data), kMaxLength);
    compute(tasks, 1 << 20);
    return tasks[0].loss_sum();
  };
  EXPECT_EQ(loss(3, 0.3), loss(3, 0.3));
  EXPECT_NE(loss(3, 0.3), loss(4, 0.3));
  EXPECT_NE(loss(3, 0.3), loss(3, 0));
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
  refused([](auto& wrong) { wrong.config["disable_lora"] = 1; }, "is a setting of forward");
  const auto with_references = [](auto& wrong) {
    wrong.loss_fn = "importance_sampling";
    for (auto& datum : wrong.data) datum.inputs["ref_logps"] = datum.inputs["weights"];
  };
  refused([&](auto& wrong) { with_references(wrong), wrong.data.pop_back(); }, "expected pairs");
  refused([&](auto& wrong) { with_references(wrong), wrong.data[1].inputs.erase("ref_logps"); }, "needs \"ref_logps\"");
  refused([&](auto& wrong) { with_references(wrong), wrong.data[1].inputs["ref_logps"].rows = 1; }, "ref_logps has shape");
  refused([&](auto& wrong) { with_references(wrong), wrong.config["beta"] = 1; }, "not a setting of DPO");
}

}  // namespace
}  // namespace hone::tinker
