// The settings of a task file, a group at a time. An error begins with `where`, the file's or the task's name.
#pragma once
#include "hone/eval/tasks/task.h"

namespace hone::eval {

UserError task_problem(const std::string& where, const std::string& found, const std::string& advice = "");
void check_task_keys(const Json& settings, const std::string& where);  // unknown ones, and those that need Python

std::optional<std::string> text_setting(const Json& settings, const char* key);
Field field_setting(const Json& settings, const char* key, const std::string& where);
OutputType output_type_of(const Json& settings, const std::string& where);
GenerationKwargs generation_of(const Json& settings, const std::string& fewshot_delimiter, const std::string& where);
DatasetConfig dataset_of(const Json& settings, const std::filesystem::path& task_folder, const std::string& where);
FewshotConfig fewshot_of(const Json& settings, const Task& task, const std::string& where);  // defaults are the task's
std::vector<MetricConfig> metrics_of(const Json& settings, OutputType type, const std::string& where);
std::vector<FilterPipeline> filters_of(const Json& settings, const std::string& where);
std::string version_of(const Json& settings, const std::string& fallback);

}  // namespace hone::eval
