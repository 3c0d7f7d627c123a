#include "hone/eval/task.h"

#include <algorithm>
#include <charconv>

#include "hone/base/edit_distance.h"
#include "hone/eval/metrics.h"

namespace hone::eval {
namespace {

constexpr std::string_view kKnownKeys[] = {"task",
                                           "task_alias",
                                           "tag",
                                           "dataset_path",
                                           "dataset_name",
                                           "dataset_kwargs",
                                           "description",
                                           "training_split",
                                           "validation_split",
                                           "test_split",
                                           "fewshot_split",
                                           "doc_to_text",
                                           "doc_to_target",
                                           "doc_to_choice",
                                           "target_delimiter",
                                           "fewshot_delimiter",
                                           "fewshot_config",
                                           "num_fewshot",
                                           "metric_list",
                                           "output_type",
                                           "generation_kwargs",
                                           "repeats",
                                           "filter_list",
                                           "should_decontaminate",
                                           "doc_to_decontamination_query",
                                           "gen_prefix",
                                           "metadata",
                                           "include",
                                           "group",
                                           "unsafe_code"};
// What requires Python.
constexpr std::string_view kPythonKeys[] = {"process_docs", "process_results", "custom_dataset", "class",
                                            "doc_to_image", "doc_to_audio",    "use_prompt"};

UserError problem(const std::string& where, const std::string& found, const std::string& advice = "") {
  return UserError(ExitCode::bad_data, fmt::format("{}: {}", where, found), advice);
}

// Functions of lm-evaluation-harness's tasks that hone has.
bool is_own_function(const std::string& key, const Json& value) {
  return (key == "process_docs" && value == "gpqa") || (key == "process_results" && value == "ifeval");
}

void check_keys(const Json& settings, const std::string& where) {
  for (const auto& [key, value] : settings.items()) {
    if (value.is_null() || is_own_function(key, value)) continue;
    if (std::ranges::find(kPythonKeys, key) != std::end(kPythonKeys)) {
      bool function = value.is_object() && value.contains("!function");
      throw problem(
          where, fmt::format("{} needs Python{}", key, function ? ": " + value["!function"].get<std::string>() : ""),
          "hone runs plain tasks only: prompts as Jinja templates, the filters and metrics of docs/evaluation.md; prepare "
          "the rows before");
    }
    if (std::ranges::find(kKnownKeys, key) == std::end(kKnownKeys)) {
      const auto near = nearest_word(key, kKnownKeys);
      throw problem(where, fmt::format("a task has no key {}", key),
                    near.empty() ? "expected a task file of lm-evaluation-harness (docs/evaluation.md)"
                                 : fmt::format("did you mean {}", near));
    }
  }
}

std::optional<std::string> text_of(const Json& settings, const char* key) {
  if (!settings.contains(key) || settings[key].is_null()) return std::nullopt;
  return settings[key].get<std::string>();
}

Field field_of(const Json& settings, const char* key, const std::string& where) {
  return settings.contains(key) ? Field(settings[key], where + ", " + key) : Field();
}

OutputType output_type_of(const Json& settings, const std::string& where) {
  auto name = settings.value("output_type", std::string("generate_until"));
  if (name == "multiple_choice") return OutputType::multiple_choice;
  if (name == "generate_until") return OutputType::generate_until;
  if (name == "loglikelihood") return OutputType::loglikelihood;
  if (name == "loglikelihood_rolling") return OutputType::loglikelihood_rolling;
  throw problem(where, fmt::format("output_type is {}", name),
                "expected multiple_choice, generate_until, loglikelihood or loglikelihood_rolling");
}

// YAML may contain a number as text.
double number_of(const Json& value, const std::string& where) {
  if (value.is_number()) return value.get<double>();
  auto text = value.is_string() ? value.get<std::string>() : value.dump();
  double number = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc())
    throw problem(where, fmt::format("temperature is {}", text), "expected a number");
  return number;
}

GenerationKwargs generation_of(const Json& settings, const std::string& fewshot_delimiter, const std::string& where) {
  GenerationKwargs kwargs;
  auto given = settings.value("generation_kwargs", Json::object());
  auto until = given.contains("until") ? given["until"] : Json(fewshot_delimiter);
  for (const auto& stop : until.is_array() ? until : Json::array({until}))
    if (!stop.get<std::string>().empty()) kwargs.until.push_back(stop.get<std::string>());
  for (const auto& [key, value] : given.items()) {
    if (key == "until" || key == "do_sample" || value.is_null()) continue;
    if (key == "max_gen_toks" || key == "max_new_tokens" || key == "max_tokens")
      kwargs.max_gen_toks = value.get<int64_t>();
    else if (key == "temperature")
      kwargs.temperature = number_of(value, where);
    else if (key == "top_p")
      kwargs.top_p = value.get<double>();
    else if (key == "min_p")
      kwargs.min_p = value.get<double>();
    else if (key == "top_k")
      kwargs.top_k = value.get<int64_t>();
    else if (key == "repetition_penalty")
      kwargs.repetition_penalty = value.get<double>();
    else
      throw problem(where, fmt::format("generation_kwargs has {}, which is not followed", key),
                    "expected until, max_gen_toks, do_sample, temperature, top_p, top_k, min_p or repetition_penalty");
  }
  if (!given.value("do_sample", kwargs.temperature > 0)) kwargs.temperature = 0;
  return kwargs;
}

DatasetConfig dataset_of(const Json& settings, const std::filesystem::path& task_folder, const std::string& where) {
  DatasetConfig dataset{.path = settings.value("dataset_path", std::string()),
                        .subset = text_of(settings, "dataset_name").value_or(""),
                        .data_files = {},
                        .task_folder = task_folder};
  auto kwargs = settings.value("dataset_kwargs", Json::object());
  for (const auto& [key, value] : kwargs.items()) {
    if (key == "data_files")
      dataset.data_files = value;
    else if (key == "data_dir")
      dataset.path = (std::filesystem::path(dataset.path) / value.get<std::string>()).string();
    else if (key != "trust_remote_code" && key != "streaming")
      throw problem(where, fmt::format("dataset_kwargs has {}, which is not followed", key), "expected data_files or data_dir");
  }
  if (dataset.path.empty()) throw problem(where, "dataset_path is missing");
  return dataset;
}

FewshotConfig fewshot_of(const Json& settings, const Task& task, const std::string& where) {
  auto own = settings.value("fewshot_config", Json::object());
  for (const auto& [key, value] : own.items())
    if (value.is_object() && value.contains("!function"))
      throw problem(where, fmt::format("fewshot_config's {} is the Python function {}", key, value["!function"].dump()),
                    "list the samples in the file");
  if (own.contains("process_docs") && !own["process_docs"].is_null()) throw problem(where, "process_docs needs Python");
  auto field = [&](const char* key, const Field& whole) { return own.contains(key) ? field_of(own, key, where) : whole; };
  FewshotConfig fewshot{.sampler = own.value("sampler", std::string("default")),
                        .split = own.contains("split") ? text_of(own, "split") : text_of(settings, "fewshot_split"),
                        .samples = own.value("samples", Json()),
                        .indices = {},
                        .text = field("doc_to_text", task.text),
                        .target = field("doc_to_target", task.target),
                        .choices = field("doc_to_choice", task.choices),
                        .gen_prefix = field("gen_prefix", task.gen_prefix),
                        .target_delimiter = own.value("target_delimiter", task.target_delimiter),
                        .fewshot_delimiter = own.value("fewshot_delimiter", task.fewshot_delimiter)};
  if (fewshot.sampler != "default" && fewshot.sampler != "first_n")
    throw problem(where, fmt::format("fewshot_config's sampler is {}", fewshot.sampler), "expected default or first_n");
  if (own.contains("fewshot_indices")) fewshot.indices = own["fewshot_indices"].get<std::vector<size_t>>();
  return fewshot;
}

// pass@1, pass@8 …: one for each k.
void add_pass_at_k(const MetricConfig& metric, std::vector<MetricConfig>& metrics) {
  const auto given = metric.arguments.value("k", Json(1));
  for (const auto& k : given.is_array() ? given : Json::array({given}))
    metrics.push_back({fmt::format("pass@{}", k.get<int64_t>()), metric.aggregation, true, {{"k", k.get<int64_t>()}}});
}

std::vector<MetricConfig> metrics_of(const Json& settings, OutputType type, const std::string& where) {
  std::vector<MetricConfig> metrics;
  if (!settings.contains("metric_list") || settings["metric_list"].is_null()) {
    for (const auto& name : default_metrics(type)) metrics.push_back({name, "", true, Json::object()});
  } else {
    for (const auto& entry : settings["metric_list"]) {
      if (!entry.contains("metric") || !entry["metric"].is_string())
        throw problem(where, "an entry of metric_list does not name its metric", "a metric that is a Python function is not run");
      MetricConfig metric{entry["metric"].get<std::string>(), "", true, Json::object()};
      for (const auto& [key, value] : entry.items()) {
        if (value.is_object() && value.contains("!function"))
          throw problem(where, fmt::format("metric_list's {} is the Python function {}", key, value["!function"].dump()));
        if (key == "aggregation") metric.aggregation = value.get<std::string>();
        if (key != "metric" && key != "aggregation" && key != "higher_is_better" && key != "hf_evaluate")
          metric.arguments[key] = value;
      }
      if (metric.name == "pass_at_k")
        add_pass_at_k(metric, metrics);
      else
        metrics.push_back(std::move(metric));
    }
  }
  for (auto& metric : metrics) check_metric(metric, type, where);
  return metrics;
}

std::vector<FilterPipeline> filters_of(const Json& settings, const std::string& where) {
  std::vector<FilterPipeline> pipelines;
  if (settings.contains("filter_list") && !settings["filter_list"].is_null())
    for (const auto& entry : settings["filter_list"]) {
      FilterPipeline pipeline{entry.at("name").get<std::string>(), {}};
      for (const auto& step : entry.at("filter"))
        pipeline.steps.push_back(make_filter(step, fmt::format("{}, filter {}", where, pipeline.name)));
      pipelines.push_back(std::move(pipeline));
    }
  if (pipelines.empty()) pipelines.push_back({"none", {make_filter({{"function", "take_first"}}, where)}});
  return pipelines;
}

std::string version_of(const Json& settings, const std::string& fallback) {
  if (!settings.contains("metadata") || !settings["metadata"].contains("version")) return fallback;
  const auto& version = settings["metadata"]["version"];
  if (version.is_string()) return version.get<std::string>();
  if (version.is_number_float() && version.get<double>() == static_cast<double>(version.get<int64_t>()))
    return fmt::format("{:.1f}", version.get<double>());
  return version.dump();
}

}  // namespace

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
  check_keys(settings, where);
  Task task;
  task.config = settings;
  task.name = settings.at("task").get<std::string>();
  task.alias = text_of(settings, "task_alias").value_or(task.name);
  task.version = version_of(settings, "Yaml");
  task.output_type = output_type_of(settings, where);
  task.dataset = dataset_of(settings, task_folder, where);
  task.training_split = text_of(settings, "training_split");
  task.validation_split = text_of(settings, "validation_split");
  task.test_split = text_of(settings, "test_split");
  if (!task.test_split && !task.validation_split) throw problem(where, "neither test_split nor validation_split is given");
  task.text = field_of(settings, "doc_to_text", where);
  task.target = field_of(settings, "doc_to_target", where);
  task.choices = field_of(settings, "doc_to_choice", where);
  task.description = field_of(settings, "description", where);
  task.gen_prefix = field_of(settings, "gen_prefix", where);
  task.target_delimiter = settings.value("target_delimiter", task.target_delimiter);
  task.fewshot_delimiter = settings.value("fewshot_delimiter", task.fewshot_delimiter);
  task.fewshot = fewshot_of(settings, task, where);
  task.num_fewshot =
      settings.contains("num_fewshot") && !settings["num_fewshot"].is_null() ? settings["num_fewshot"].get<int64_t>() : 0;
  task.repeats = settings.value("repeats", int64_t{1});
  task.generation = generation_of(settings, task.fewshot_delimiter, where);
  task.filters = filters_of(settings, where);
  task.metrics = metrics_of(settings, task.output_type, where);
  task.process_docs = text_of(settings, "process_docs").value_or("");
  task.process_results = text_of(settings, "process_results").value_or("");
  for (const auto& metric : task.metrics)
    if ((metric.name.starts_with("prompt_level_") || metric.name.starts_with("inst_level_")) && task.process_results != "ifeval")
      throw problem(where, fmt::format("the metric {} is computed by process_results: ifeval", metric.name));
  if (settings.value("unsafe_code", false) && !task.runs_programs())
    throw problem(where, "the task runs code that a model wrote, which hone does not", "pass_at_k is the metric that runs it");
  if (task.output_type == OutputType::multiple_choice && !task.choices.is_set())
    throw problem(where, "doc_to_choice is missing", "a multiple_choice task lists its choices");
  if (!task.target.is_set()) throw problem(where, "doc_to_target is missing");
  if (task.output_type != OutputType::loglikelihood_rolling && !task.text.is_set())
    throw problem(where, "doc_to_text is missing");
  return task;
} catch (const Json::exception& cause) {
  throw problem(where, cause.what());
}

Group make_group(const Json& settings, const std::string& where) try {
  Group group;
  group.name = settings.at("group").get<std::string>();
  group.alias = text_of(settings, "group_alias").value_or(group.name);
  group.version = version_of(settings, "N/A");
  for (const auto& member : settings.at("task").is_array() ? settings["task"] : Json::array({settings["task"]})) {
    if (!member.is_string()) throw problem(where, "a group lists tasks by name", "give each of them a file of its own");
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
  throw problem(where, cause.what());
}

}  // namespace hone::eval
