#include "hone/train/validate.h"

#include <gtest/gtest.h>

#include <functional>

#include "hone/base/config_error.h"

namespace hone::train {
namespace {

std::string complaint(const std::function<void(TrainingJob&)>& change) {
  TrainingJob job;
  change(job);
  try {
    validate(job);
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "";
}

rl::ReinforcementConfig& reinforcement(TrainingJob& job) {
  auto& config = job.reinforcement.emplace();
  config.sampling.temperature = 1;
  return config;
}

TEST(TrainingRules, DefaultsBreakNone) {
  EXPECT_EQ(complaint([](TrainingJob&) {}), "");
  EXPECT_EQ(complaint([](TrainingJob& job) { reinforcement(job); }), "");
}

TEST(TrainingRules, EachNamesItsFields) {
  const std::pair<std::string, std::function<void(TrainingJob&)>> cases[] = {
      {"`warmup.ratio` and `warmup.steps`: say the same", [](auto& job) { job.warmup = {.steps = 3, .ratio = 0.1}; }},
      {"`load_best_model_at_end` and `eval`", [](auto& job) { job.trainer.load_best_model_at_end = true; }},
      {"`save_steps` and `eval_steps`",
       [](auto& job) {
         job.trainer.load_best_model_at_end = true;
         job.trainer.eval = IntervalStrategy::steps;
         job.trainer.save_steps = 30;
         job.trainer.eval_steps = 20;
       }},
      {"`eval_steps` is 2.5",
       [](auto& job) {
         job.trainer.eval = IntervalStrategy::steps;
         job.trainer.eval_steps = 2.5;
       }},
      {"`eval_steps` and `logging_steps` are 0",
       [](auto& job) {
         job.trainer.eval = IntervalStrategy::steps;
         job.trainer.eval_steps = 0;
       }},
      {"`save_steps` is 1.5", [](auto& job) { job.trainer.save_steps = 1.5; }},
      {"`adapters` is given with `kind` full",
       [](auto& job) {
         job.tuner.kind = tuner::TunerType::full;
         job.tuner.adapters = {"a"};
       }},
      {"`beta` is -1",
       [](auto& job) {
         job.preference.method = Preference::dpo;
         job.preference.beta = -1;
       }},
      {"`label_smoothing` is 0.5",
       [](auto& job) {
         job.preference.label_smoothing = 0.5;
         job.preference.losses = {{"sigmoid"}, {"robust"}};
       }},
      {"gkd has no teacher", [](auto& job) { job.distillation.emplace(); }},
      {"`topk` is needed", [](auto& job) { job.distillation.emplace().teacher.servers = {{.address = "http://127.0.0.1:9"}}; }},
      {"`temperature` is 0: all completions", [](auto& job) { job.reinforcement.emplace(); }},
      {"`async_lag` needs a rollout server", [](auto& job) { reinforcement(job).async_lag = 1; }},
      {"prompts are sampled from the full dataset",
       [](auto& job) {
         reinforcement(job);
         job.datasets.streaming = true;
       }},
      {"rows of `task` embedding cannot be packed",
       [](auto& job) {
         job.task.task = Task::embedding;
         job.loader.packing = data::Packing::best_fit;
       }},
      {"`eval_dtype`: needs unsharded",
       [](auto& job) {
         job.eval_dtype = at::kBFloat16;
         job.parallel.sharding.stage = 3;
       }},
  };
  for (const auto& [message, change] : cases)
    EXPECT_TRUE(complaint(change).starts_with(message)) << message << "\n" << complaint(change);
}

}  // namespace
}  // namespace hone::train
