#include "hone/cli/configs/training/benchmark_config.h"

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/configs/eval_config.h"
#include "hone/eval/report.h"

namespace hone::cli {
namespace {

// The engine shares the weights being trained.
std::unique_ptr<eval::Model> benchmarked_model(const train::BenchmarkInput& input, engine::Engine& engine, bool chat) {
  auto ends = input.encoder->stop_ids();
  if (auto eos = input.tokenizer->special().eos) ends.push_back(*eos);
  return eval::make_engine_model(engine, input.tokenizer, input.encoder,
                                 {.apply_chat_template = chat, .fewshot_as_multiturn = true, .eos_token_ids = std::move(ends)});
}

// ms-swift logs one score per benchmark.
Json first_scores(const std::vector<eval::TaskResult>& results) {
  Json scores = Json::object();
  for (const auto& result : results)
    if (!result.metrics.empty()) scores["test_" + result.name] = result.metrics.front().value;
  return scores;
}

}  // namespace

train::Benchmark training_benchmark(const Options& options) {
  const EvalArguments args(options);
  const TrainingArguments training_args(options);
  if (!*training_args.eval_use_evalscope) {
    if (args.eval_dataset.is_set())
      log::warning("{} names benchmarks, which run with {} true; validation data is {}", args.eval_dataset.flag(),
                   training_args.eval_use_evalscope.flag(), DataArguments(options).val_dataset.flag());
    return {};
  }
  if (*training_args.eval_strategy == "no")
    throw UserError(
        ExitCode::usage,
        fmt::format("{} runs benchmarks whenever the model is evaluated, and it never is",
                    training_args.eval_use_evalscope.flag()),
        fmt::format("set an interval: {} steps {} 100", training_args.eval_strategy.flag(), training_args.eval_steps.flag()));
  auto settings = benchmark_settings(options);
  auto source = task_source(options, settings);
  auto set = eval::find_tasks(settings.names, source);
  apply_generation_config(args.eval_generation_config, settings.generation, set.tasks);
  return [set, source, run = eval_run_config(options, settings)](const train::BenchmarkInput& input) {
    engine::Engine engine(input.model, input.tokenizer, {.fuse_projections = false});
    const auto load = [&] { return benchmarked_model(input, engine, run.apply_chat_template); };
    const auto tasks = eval::run_tasks(set.tasks, load, source.fetch, run);
    const auto groups = eval::run_groups(set.groups, tasks);
    const auto folder = input.folder / "eval" / fmt::format("step-{}", input.step);
    fs::create_directories(folder);
    write_file_atomically(
        folder / "results.json",
        eval::results_json(tasks, groups, set.groups).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return first_scores(groups.empty() ? tasks : groups);
  };
}

}  // namespace hone::cli
