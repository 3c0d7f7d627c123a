// Results as a table and as JSON, in lm-evaluation-harness's format.
#pragma once
#include <string>
#include <vector>

#include "hone/eval/run_tasks.h"

namespace hone::eval {

// |Tasks|Version|Filter|n-shot|Metric|…|Value|…|Stderr|, groups before their tasks.
std::string results_table(const std::vector<TaskResult>& tasks, const std::vector<TaskResult>& groups,
                          const std::vector<Group>& tree);

// results, groups, group_subtasks, configs, versions, n-shot, higher_is_better, n-samples.
Json results_json(const std::vector<TaskResult>& tasks, const std::vector<TaskResult>& groups, const std::vector<Group>& tree);

}  // namespace hone::eval
