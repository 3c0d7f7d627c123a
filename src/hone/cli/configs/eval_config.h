// From options to how benchmarks are run. The only code that reads the options of eval.
#pragma once
#include "hone/cli/arguments/arg.h"
#include "hone/cli/options.h"
#include "hone/eval/factory_evaluation.h"
#include "hone/eval/run_tasks.h"
#include "hone/eval/tasks/find_tasks.h"

namespace hone::cli {

// The settings: the options, overridden by extra_eval_args, which use evalscope's names.
struct BenchmarkSettings {
  std::vector<std::string> names;
  Json dataset_args = Json::object(), generation = Json::object();
  double limit = 0;
};
BenchmarkSettings benchmark_settings(const Options& options);  // throws UserError(usage) where no benchmark is named

eval::TaskSource task_source(const Options& options, const BenchmarkSettings& settings);
eval::RunConfig eval_run_config(const Options& options, const BenchmarkSettings& settings);
// `settings` override those of the tasks; `option` is their source, for messages.
void apply_generation_config(const AnyArg& option, const Json& settings, std::vector<eval::Task>& tasks);
bool applies_chat_template(const Options& options);
// Small models on the CPU generate faster as one replica per core: threads that share a step wait for each other at every layer.
Options with_replicas(Options options);
eval::FactoryEvaluationConfig factory_evaluation_config(const Options& options);
// --eval_url.
eval::ChatServer evaluated_server(const Options& options);

}  // namespace hone::cli
