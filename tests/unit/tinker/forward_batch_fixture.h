// A tiny model, training runs of several ranks and requests of random data, for tests of passes that runs share.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hone/base/rng.h"
#include "hone/tinker/model/forward_batch.h"
#include "model/tiny_json.h"

namespace hone::tinker {

inline constexpr int64_t kVocabulary = 60, kMaxLength = 64;

inline std::unique_ptr<model::CausalLM> tiny_model() {
  const auto config = model::tiny_json(
      "Qwen2ForCausalLM", {{"vocab_size", kVocabulary}, {"max_position_embeddings", kMaxLength}, {"initializer_range", 0.1}});
  return model::CausalLM::random(model::parse_config(config, "test"), 4);
}

inline LossInput column(std::vector<double> values) {
  const auto rows = static_cast<int64_t>(values.size());
  return {.values = std::move(values), .rows = rows, .width = 1, .is_matrix = false};
}

inline ForwardBackwardRequest request(uint64_t seed, size_t count, bool forward_only = false) {
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

struct RunResult {
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

  static RunResult result_of(const ForwardTask& task, TrainingRun& run) {
    RunResult result{.loss = task.loss_sum(), .logprobs = {}, .weights = {}};
    for (const auto& datum : task.logprobs())
      result.logprobs.insert(result.logprobs.end(), datum.values.begin(), datum.values.end());
    run.optim_step({.learning_rate = 1e6, .beta1 = 0, .beta2 = 0, .eps = 1e6});
    for (const auto& [name, tensor] : run.trainable()) result.weights[name] = tensor.detach().clone();
    return result;
  }

  // Together in passes of so many tokens, or one run after the other.
  std::vector<RunResult> results(int64_t batch_tokens, bool together) {
    auto all = runs();
    std::vector<RunResult> found;
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
  static void expect_same_weights(const RunResult& found, const RunResult& wanted) {
    ASSERT_EQ(found.weights.size(), wanted.weights.size());
    for (const auto& [name, tensor] : wanted.weights)
      EXPECT_LE((found.weights.at(name) - tensor).abs().max().item<double>(), 1e-5 * (1 + tensor.abs().max().item<double>()))
          << name;
  }

  std::unique_ptr<model::CausalLM> model_ = tiny_model();
};

}  // namespace hone::tinker
