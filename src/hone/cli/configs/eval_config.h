// From options to how benchmarks are run. The only code that reads the options of eval.
#pragma once
#include "hone/cli/options.h"
#include "hone/eval/factory_evaluation.h"
#include "hone/eval/find_tasks.h"
#include "hone/eval/run_tasks.h"

namespace hone::cli {

eval::TaskSource task_source(const Options& options);
eval::RunConfig eval_run_config(const Options& options);
// --eval_generation_config and --max_new_tokens, over what the task says.
void apply_generation_config(const Options& options, std::vector<eval::Task>& tasks);
bool applies_chat_template(const Options& options);
eval::FactoryEvaluationConfig factory_evaluation_config(const Options& options);
// --eval_url.
eval::ChatServer evaluated_server(const Options& options);

}  // namespace hone::cli
