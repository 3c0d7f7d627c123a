// The losses of a request: several targets a position, pairs, dropout, no adapter, and data that do not fit.
#include <gmock/gmock.h>

#include "hone/tinker/wire/request_error.h"
#include "tinker/forward_batch_fixture.h"

namespace hone::tinker {
namespace {

using testing::HasSubstr;

class RequestLosses : public ForwardBatchTest {};

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
TEST_F(RequestLosses, SeveralTargetsEqualOneAtATime) {
  const auto several = with_widths({3, 1, 4, 3});
  for (size_t other : {size_t{1}, size_t{2}}) {
    std::vector<RunResult> results;
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
TEST_F(RequestLosses, ABaseForwardHasNoAdapter) {
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
TEST_F(RequestLosses, PairsAreAMeanOverTheRequest) {
  auto pairs = request(30, 6);
  pairs.loss_fn = "importance_sampling";
  pairs.config = {{"dpo_beta", 0.5}, {"dpo_sft_weight", 0.3}};
  for (auto& datum : pairs.data) {
    datum.inputs["ref_logps"] = column(std::vector<double>(datum.tokens.size(), -3.5));
    for (size_t j = 0; j < datum.tokens.size(); ++j) datum.inputs["weights"].values[j] = j < 3 ? 0 : 1;
  }
  std::vector<RunResult> results;
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
TEST_F(RequestLosses, DropoutIsRepeatable) {
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

TEST_F(RequestLosses, DataThatDoNotFitAreErrors) {
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
