// The built-in benchmarks as tasks over the files of a folder or hub dataset.
#include <algorithm>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/eval/tasks/benchmark_table.h"
#include "hone/eval/tasks/find_tasks.h"

namespace hone::eval {
namespace {

const Benchmark* benchmark_named(std::string_view name) {
  const auto table = benchmark_table();
  const auto found = std::ranges::find(table, name, &Benchmark::name);
  return found == table.end() ? nullptr : &*found;
}

// Settings of one benchmark in evalscope's dataset_args.
struct DatasetArgs {
  std::string path;
  std::vector<std::string> subsets;
  std::optional<int64_t> num_fewshot;
  std::string split;             // empty: that of the settings
  Json filters = Json::array();  // of completions, before the benchmark's own
};

// evalscope's {"remove_until": "</think>", "extract": "pattern"} as filters of a task.
Json filters_in(const Json& given, std::string_view benchmark) {
  Json filters = Json::array();
  for (const auto& [name, value] : given.items()) {
    const auto text = (value.is_array() && value.size() == 1 ? value[0] : value).get<std::string>();
    if (name == "remove_until")
      filters.push_back({{"function", "remove_until"}, {"delimiter", text}});
    else if (name == "extract" || name == "regex")
      filters.push_back({{"function", "regex"}, {"regex_pattern", text}});
    else
      throw UserError(ExitCode::usage,
                      fmt::format("`eval_dataset_args`: {} has the filter {}, which is not followed", benchmark, name),
                      "expected remove_until with a text, or extract with a regular expression");
  }
  return filters;
}

void apply_filters(const Json& filters, const std::string& name, Json& settings) {
  if (filters.empty()) return;
  if (settings["output_type"] != "generate_until") {
    log::info("`eval_dataset_args`: the filters of {} change nothing, since it compares likelihoods", name);
    return;
  }
  if (!settings.contains("filter_list"))
    settings["filter_list"] = Json::array({{{"name", "none"}, {"filter", Json::array({{{"function", "take_first"}}})}}});
  for (auto& pipeline : settings["filter_list"]) {
    auto steps = filters;
    for (auto& step : pipeline["filter"]) steps.push_back(std::move(step));
    pipeline["filter"] = std::move(steps);
  }
}

std::string default_dataset(const Benchmark& benchmark, const TaskSource& source) {
  const auto copy = modelscope_dataset(benchmark.name);
  const std::string id(benchmark.dataset.substr(0, benchmark.dataset.find(':')));
  return std::string(!copy.empty() && source.asks_modelscope && source.asks_modelscope(id) ? copy : benchmark.dataset);
}

DatasetArgs dataset_args(const Benchmark& benchmark, const TaskSource& source) try {
  DatasetArgs args{
      .path = default_dataset(benchmark, source), .subsets = {}, .num_fewshot = {}, .split = std::string(benchmark.split)};
  if (!benchmark.only_subject.empty()) args.subsets.emplace_back(benchmark.only_subject);
  auto given = source.dataset_args.value(std::string(benchmark.name), Json::object());
  for (const auto& [key, value] : given.items()) {
    if (key == "local_path" || key == "dataset_id")
      args.path = value.get<std::string>();
    else if (key == "subset_list")
      args.subsets = value.get<std::vector<std::string>>();
    else if (key == "few_shot_num")
      args.num_fewshot = value.get<int64_t>();
    else if (key == "eval_split")
      args.split = value.get<std::string>();
    else if (key == "filters")
      args.filters = filters_in(value, benchmark.name);
    else
      throw UserError(ExitCode::usage, fmt::format("`eval_dataset_args`: {} has {}, which is not followed", benchmark.name, key),
                      "expected local_path, dataset_id, subset_list, eval_split, few_shot_num or filters; a task file says more");
  }
  if (args.path.empty())
    throw UserError(ExitCode::usage, fmt::format("{} needs a folder", benchmark.name),
                    fmt::format("`eval_dataset_args` '{{\"{}\": {{\"local_path\": \"folder\"}}}}'", benchmark.name));
  return args;
} catch (const Json::exception& problem) {
  throw UserError(ExitCode::usage, fmt::format("`eval_dataset_args` of {}: {}", benchmark.name, problem.what()),
                  "expected an object: local_path, dataset_id and eval_split are texts, subset_list is a list of texts, "
                  "few_shot_num a number, "
                  "filters an object");
}

constexpr std::string_view kSubject = "SUBJECT";  // in a description

bool names_subject(const Json& settings) {
  return settings.contains("description") && settings["description"].get<std::string>().find(kSubject) != std::string::npos;
}

// A subject's name from the folder's mapping file, else derived from its id: LLaMA-Factory's {"name": …}, C-Eval's [English,
// Chinese, category].
std::string subject_title(const fs::path& folder, const std::string& subject, bool chinese) {
  for (const char* name : {"mapping.json", "subject_mapping.json"}) {
    if (!fs::is_regular_file(folder / name)) continue;
    auto mapping = read_config_file((folder / name).string());
    if (!mapping.is_object() || !mapping.contains(subject)) continue;
    const auto& entry = mapping[subject];
    if (entry.is_object() && entry.contains("name") && entry["name"].is_string()) return entry["name"].get<std::string>();
    if (size_t column = chinese ? 1 : 0; entry.is_array() && entry.size() > column && entry[column].is_string())
      return entry[column].get<std::string>();
  }
  auto words = subject;
  std::ranges::replace(words, '_', ' ');
  return words;
}

// As a folder, or as a file.
bool is_in_folder(const fs::path& folder, const std::string& subset) {
  if (subset.empty()) return false;
  if (fs::is_directory(folder / subset)) return true;
  return std::ranges::any_of(std::vector{".csv", ".jsonl", ".json", ".parquet"},
                             [&](const char* ending) { return fs::is_regular_file(folder / (subset + ending)); });
}

}  // namespace

std::vector<std::string> known_benchmarks() {
  std::vector<std::string> names;
  for (const auto& benchmark : benchmark_table()) names.emplace_back(benchmark.name);
  return names;
}

bool add_benchmark(const std::string& name, const TaskSource& source, TaskSet& set) {
  const auto* benchmark = benchmark_named(name);
  if (!benchmark) return false;
  auto settings = parse_yaml(std::string(benchmark->base) + std::string(benchmark->settings)).or_throw(ExitCode::failure, name);
  if (source.is_chat && !benchmark->chat_settings.empty())
    settings.update(parse_yaml(benchmark->chat_settings).or_throw(ExitCode::failure, name));
  auto args = dataset_args(*benchmark, source);
  std::string subset(benchmark->own_subset());  // in a copy of the dataset, too
  if (auto colon = args.path.find(':'); colon != args.path.npos && !fs::exists(args.path)) {
    subset = args.path.substr(colon + 1);
    args.path.resize(colon);
  }
  if (!benchmark->has_subjects && !args.subsets.empty() && args.subsets != std::vector{subset})
    throw UserError(ExitCode::usage, fmt::format("`eval_dataset_args`: {} has subset_list, and runs as a whole", name),
                    "leave it out; a task file can name a subset");
  auto folder = dataset_folder({.path = args.path, .subset = "", .data_files = {}, .task_folder = {}}, source.fetch);
  if (args.num_fewshot) settings["num_fewshot"] = *args.num_fewshot;
  if (!args.split.empty()) settings["test_split"] = args.split;
  apply_filters(args.filters, name, settings);
  settings["dataset_path"] = folder.string();
  if (benchmark->has_subjects && args.subsets.empty() && fs::is_directory(folder))
    args.subsets = list_subsets(folder, settings.value("test_split", settings.value("validation_split", std::string("test"))));
  if (!benchmark->has_subjects || args.subsets.empty()) {
    settings["task"] = name;
    settings["dataset_name"] = is_in_folder(folder, subset) ? subset : "";
    if (names_subject(settings)) settings.erase("description");
    set.tasks.push_back(make_task(settings, name, folder));
    return true;
  }
  Group group{.name = name, .alias = name, .members = {}, .metrics = {}};
  for (const auto& subject : args.subsets) {
    auto own = settings;
    own["task"] = name + "_" + subject;
    own["task_alias"] = subject;
    own["dataset_name"] = subject;
    if (names_subject(own)) {
      auto text = own["description"].get<std::string>();
      own["description"] = text.replace(text.find(kSubject), kSubject.size(), subject_title(folder, subject, name != "mmlu"));
    }
    set.tasks.push_back(make_task(own, own["task"].get<std::string>(), folder));
    group.members.push_back(set.tasks.back().name);
  }
  for (const auto& metric : set.tasks.back().metrics) group.metrics.push_back({metric.name, {}, true});
  group.version = set.tasks.back().version;
  set.groups.push_back(std::move(group));
  return true;
}

}  // namespace hone::eval
