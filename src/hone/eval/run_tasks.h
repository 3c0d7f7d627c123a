// Runs tasks: documents, prompts, responses, scores.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hone/eval/models/model.h"
#include "hone/eval/scores/answer_scorer.h"
#include "hone/eval/tasks/documents.h"
#include "hone/eval/tasks/task.h"

namespace hone::eval {

struct RunConfig {
  double limit = 0;  // documents of each task; below 1 a share of them; 0: all
  std::optional<int64_t> num_fewshot;
  uint64_t fewshot_seed = 1234, seed = 0;
  bool apply_chat_template = false;
  bool keep_samples = false;  // each document with its prompt, answers and scores
  ScoringConfig scoring;
};

struct MetricResult {
  std::string metric, filter;
  double value = 0;
  std::optional<double> stderr_value;
  bool higher_is_better = true;
};
struct TaskResult {
  std::string name, alias, version;
  int64_t num_fewshot = 0, samples = 0, documents = 0;  // scored, and in the split
  std::vector<MetricResult> metrics;
  Json config;
  std::vector<Json> logged;  // with keep_samples
};

// All tasks together, so that the model is kept busy; results in task order. `load_model` is called after the documents are read
// and the prompts rendered.
using LoadModel = std::function<std::unique_ptr<Model>()>;
std::vector<TaskResult> run_tasks(const std::vector<Task>& tasks, const LoadModel& load_model, const FetchDataset& fetch,
                                  const RunConfig& config);

// The means of groups, children first; groups may contain groups.
std::vector<TaskResult> run_groups(const std::vector<Group>& groups, const std::vector<TaskResult>& tasks);

}  // namespace hone::eval
