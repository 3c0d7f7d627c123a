// From names to tasks: task files of lm-evaluation-harness, or hone's built-in benchmarks.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "hone/eval/tasks/documents.h"
#include "hone/eval/tasks/task.h"

namespace hone::eval {

struct TaskSource {
  std::vector<std::filesystem::path> include_paths;  // folders of task files
  Json dataset_args = Json::object();                // by name: local_path, dataset_id, subset_list, few_shot_num …
  bool is_chat = false;                              // some benchmarks have another form for chats
  FetchDataset fetch;
  // Whether an id that no cache has comes from ModelScope; unset: from Hugging Face.
  std::function<bool(const std::string& id)> asks_modelscope;
};

// Each name is a task file, a folder of them, a task, group or tag in an include path, or a built-in benchmark. Throws
// UserError(usage) listing what exists.
TaskSet find_tasks(const std::vector<std::string>& names, const TaskSource& source);

// By evalscope's and OpenCompass's names; false for other names.
std::vector<std::string> known_benchmarks();
bool add_benchmark(const std::string& name, const TaskSource& source, TaskSet& set);

}  // namespace hone::eval
