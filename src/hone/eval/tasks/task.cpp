#include "hone/eval/tasks/task.h"

#include <algorithm>

#include "hone/eval/tasks/task_settings.h"

namespace hone::eval {

bool GenerationKwargs::set(const std::string& key, const Json& value) {
  if (key == "max_gen_toks" || key == "max_new_tokens" || key == "max_tokens")
    max_gen_toks = value.get<int64_t>();
  else if (key == "temperature")
    temperature = value.get<double>();
  else if (key == "top_p")
    top_p = value.get<double>();
  else if (key == "min_p")
    min_p = value.get<double>();
  else if (key == "top_k")
    top_k = std::max<int64_t>(0, value.get<int64_t>());
  else if (key == "repetition_penalty")
    repetition_penalty = value.get<double>();
  else
    return false;
  return true;
}

std::optional<size_t> Task::right_input(const Json& document) const {
  if (output_type != OutputType::multiple_choice || !choices.is_set() || !text.is_set()) return std::nullopt;
  const auto index = text.target(document, true);
  if (!index.is_number_integer() || index.get<int64_t>() < 0) return std::nullopt;
  const auto place = static_cast<size_t>(index.get<int64_t>());
  return place < choices.choices(document).size() ? std::optional(place) : std::nullopt;
}

bool Task::runs_programs() const {
  return std::ranges::any_of(metrics, [](const MetricConfig& each) { return each.name.starts_with("pass@"); });
}

bool Task::asks_for(std::string_view metric) const {
  return std::ranges::any_of(metrics, [&](const MetricConfig& each) { return each.name == metric; });
}

Task make_task(const Json& settings, const std::string& where, const std::filesystem::path& task_folder) try {
  check_task_keys(settings, where);
  Task task;
  task.config = settings;
  task.name = settings.at("task").get<std::string>();
  task.alias = text_setting(settings, "task_alias").value_or(task.name);
  task.version = version_of(settings, "Yaml");
  task.output_type = output_type_of(settings, where);
  task.dataset = dataset_of(settings, task_folder, where);
  task.training_split = text_setting(settings, "training_split");
  task.validation_split = text_setting(settings, "validation_split");
  task.test_split = text_setting(settings, "test_split");
  if (!task.test_split && !task.validation_split) throw task_problem(where, "neither test_split nor validation_split is given");
  task.text = field_setting(settings, "doc_to_text", where);
  task.target = field_setting(settings, "doc_to_target", where);
  task.choices = field_setting(settings, "doc_to_choice", where);
  task.description = field_setting(settings, "description", where);
  task.gen_prefix = field_setting(settings, "gen_prefix", where);
  task.target_delimiter = settings.value("target_delimiter", task.target_delimiter);
  task.fewshot_delimiter = settings.value("fewshot_delimiter", task.fewshot_delimiter);
  task.fewshot = fewshot_of(settings, task, where);
  task.num_fewshot =
      settings.contains("num_fewshot") && !settings["num_fewshot"].is_null() ? settings["num_fewshot"].get<int64_t>() : 0;
  task.repeats = settings.value("repeats", int64_t{1});
  task.generation = generation_of(settings, task.fewshot_delimiter, where);
  task.filters = filters_of(settings, where);
  task.metrics = metrics_of(settings, task.output_type, where);
  task.process_docs = text_setting(settings, "process_docs").value_or("");
  task.process_results = text_setting(settings, "process_results").value_or("");
  for (const auto& metric : task.metrics)
    if ((metric.name.starts_with("prompt_level_") || metric.name.starts_with("inst_level_")) && task.process_results != "ifeval")
      throw task_problem(where, fmt::format("the metric {} is computed by process_results: ifeval", metric.name));
  if (settings.value("unsafe_code", false) && !task.runs_programs())
    throw task_problem(where, "the task runs code that a model wrote, which hone does not",
                       "pass_at_k is the metric that runs it");
  if (task.output_type == OutputType::multiple_choice && !task.choices.is_set())
    throw task_problem(where, "doc_to_choice is missing", "a multiple_choice task lists its choices");
  if (!task.target.is_set()) throw task_problem(where, "doc_to_target is missing");
  if (task.output_type != OutputType::loglikelihood_rolling && !task.text.is_set())
    throw task_problem(where, "doc_to_text is missing");
  return task;
} catch (const Json::exception& cause) {
  throw task_problem(where, cause.what());
}

Group make_group(const Json& settings, const std::string& where) try {
  Group group;
  group.name = settings.at("group").get<std::string>();
  group.alias = text_setting(settings, "group_alias").value_or(group.name);
  group.version = version_of(settings, "N/A");
  for (const auto& member : settings.at("task").is_array() ? settings["task"] : Json::array({settings["task"]})) {
    if (!member.is_string()) throw task_problem(where, "a group lists tasks by name", "give each of them a file of its own");
    group.members.push_back(member.get<std::string>());
  }
  auto lists = settings.value("aggregate_metric_list", Json::array());
  for (const auto& entry : lists.is_array() ? lists : Json::array({lists})) {
    GroupMetric metric{entry.at("metric").get<std::string>(), {}, entry.value("weight_by_size", true)};
    auto filters = entry.value("filter_list", Json::array());
    for (const auto& filter : filters.is_array() ? filters : Json::array({filters}))
      metric.filters.push_back(filter.get<std::string>());
    group.metrics.push_back(std::move(metric));
  }
  return group;
} catch (const Json::exception& cause) {
  throw task_problem(where, cause.what());
}

}  // namespace hone::eval
