#include "hone/eval/tasks/task_settings.h"

#include <algorithm>
#include <charconv>

#include "hone/base/strings/edit_distance.h"
#include "hone/eval/scores/metrics.h"

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
// Settings that require Python.
constexpr std::string_view kPythonKeys[] = {"process_docs", "process_results", "custom_dataset", "class",
                                            "doc_to_image", "doc_to_audio",    "use_prompt"};

// Functions of lm-evaluation-harness's tasks that hone has.
bool is_own_function(const std::string& key, const Json& value) {
  return (key == "process_docs" && value == "gpqa") || (key == "process_results" && value == "ifeval");
}

// YAML may contain a number as text.
double number_of(const Json& value, const std::string& where) {
  if (value.is_number()) return value.get<double>();
  auto text = value.is_string() ? value.get<std::string>() : value.dump();
  double number = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc())
    throw task_problem(where, fmt::format("temperature is {}", text), "expected a number");
  return number;
}

// pass@1, pass@8 …: one for each k.
void add_pass_at_k(const MetricConfig& metric, std::vector<MetricConfig>& metrics) {
  const auto given = metric.arguments.value("k", Json(1));
  for (const auto& k : given.is_array() ? given : Json::array({given}))
    metrics.push_back({fmt::format("pass@{}", k.get<int64_t>()), metric.aggregation, true, {{"k", k.get<int64_t>()}}});
}

}  // namespace

UserError task_problem(const std::string& where, const std::string& found, const std::string& advice) {
  return UserError(ExitCode::bad_data, fmt::format("{}: {}", where, found), advice);
}

void check_task_keys(const Json& settings, const std::string& where) {
  for (const auto& [key, value] : settings.items()) {
    if (value.is_null() || is_own_function(key, value)) continue;
    if (std::ranges::find(kPythonKeys, key) != std::end(kPythonKeys)) {
      bool function = value.is_object() && value.contains("!function");
      throw task_problem(
          where, fmt::format("{} needs Python{}", key, function ? ": " + value["!function"].get<std::string>() : ""),
          "hone runs plain tasks only: prompts as Jinja templates, the filters and metrics of docs/evaluation.md; prepare "
          "the rows before");
    }
    if (std::ranges::find(kKnownKeys, key) == std::end(kKnownKeys)) {
      const auto near = nearest_word(key, kKnownKeys);
      throw task_problem(where, fmt::format("a task has no key {}", key),
                         near.empty() ? "expected a task file of lm-evaluation-harness (docs/evaluation.md)"
                                      : fmt::format("did you mean {}", near));
    }
  }
}

std::optional<std::string> text_setting(const Json& settings, const char* key) {
  if (!settings.contains(key) || settings[key].is_null()) return std::nullopt;
  return settings[key].get<std::string>();
}

Field field_setting(const Json& settings, const char* key, const std::string& where) {
  return settings.contains(key) ? Field(settings[key], where + ", " + key) : Field();
}

OutputType output_type_of(const Json& settings, const std::string& where) {
  auto name = settings.value("output_type", std::string("generate_until"));
  if (name == "multiple_choice") return OutputType::multiple_choice;
  if (name == "generate_until") return OutputType::generate_until;
  if (name == "loglikelihood") return OutputType::loglikelihood;
  if (name == "loglikelihood_rolling") return OutputType::loglikelihood_rolling;
  throw task_problem(where, fmt::format("output_type is {}", name),
                     "expected multiple_choice, generate_until, loglikelihood or loglikelihood_rolling");
}

GenerationKwargs generation_of(const Json& settings, const std::string& fewshot_delimiter, const std::string& where) {
  GenerationKwargs kwargs;
  auto given = settings.value("generation_kwargs", Json::object());
  auto until = given.contains("until") ? given["until"] : Json(fewshot_delimiter);
  for (const auto& stop : until.is_array() ? until : Json::array({until}))
    if (!stop.get<std::string>().empty()) kwargs.until.push_back(stop.get<std::string>());
  for (const auto& [key, value] : given.items()) {
    if (key == "until" || key == "do_sample" || value.is_null()) continue;
    if (!kwargs.set(key, key == "temperature" ? Json(number_of(value, where)) : value))
      throw task_problem(where, fmt::format("generation_kwargs has {}, which is not followed", key),
                         "expected until, max_gen_toks, do_sample, temperature, top_p, top_k, min_p or repetition_penalty");
  }
  if (!given.value("do_sample", kwargs.temperature > 0)) kwargs.temperature = 0;
  return kwargs;
}

DatasetConfig dataset_of(const Json& settings, const std::filesystem::path& task_folder, const std::string& where) {
  DatasetConfig dataset{.path = settings.value("dataset_path", std::string()),
                        .subset = text_setting(settings, "dataset_name").value_or(""),
                        .data_files = {},
                        .task_folder = task_folder};
  auto kwargs = settings.value("dataset_kwargs", Json::object());
  for (const auto& [key, value] : kwargs.items()) {
    if (key == "data_files")
      dataset.data_files = value;
    else if (key == "data_dir")
      dataset.path = (std::filesystem::path(dataset.path) / value.get<std::string>()).string();
    else if (key != "trust_remote_code" && key != "streaming")
      throw task_problem(where, fmt::format("dataset_kwargs has {}, which is not followed", key),
                         "expected data_files or data_dir");
  }
  if (dataset.path.empty()) throw task_problem(where, "dataset_path is missing");
  return dataset;
}

FewshotConfig fewshot_of(const Json& settings, const Task& task, const std::string& where) {
  auto own = settings.value("fewshot_config", Json::object());
  for (const auto& [key, value] : own.items())
    if (value.is_object() && value.contains("!function"))
      throw task_problem(where, fmt::format("fewshot_config's {} is the Python function {}", key, value["!function"].dump()),
                         "list the samples in the file");
  if (own.contains("process_docs") && !own["process_docs"].is_null()) throw task_problem(where, "process_docs needs Python");
  auto field = [&](const char* key, const Field& whole) { return own.contains(key) ? field_setting(own, key, where) : whole; };
  FewshotConfig fewshot{.sampler = own.value("sampler", std::string("default")),
                        .split = own.contains("split") ? text_setting(own, "split") : text_setting(settings, "fewshot_split"),
                        .samples = own.value("samples", Json()),
                        .indices = {},
                        .text = field("doc_to_text", task.text),
                        .target = field("doc_to_target", task.target),
                        .choices = field("doc_to_choice", task.choices),
                        .gen_prefix = field("gen_prefix", task.gen_prefix),
                        .target_delimiter = own.value("target_delimiter", task.target_delimiter),
                        .fewshot_delimiter = own.value("fewshot_delimiter", task.fewshot_delimiter)};
  if (fewshot.sampler != "default" && fewshot.sampler != "first_n")
    throw task_problem(where, fmt::format("fewshot_config's sampler is {}", fewshot.sampler), "expected default or first_n");
  if (own.contains("fewshot_indices")) fewshot.indices = own["fewshot_indices"].get<std::vector<size_t>>();
  return fewshot;
}

std::vector<MetricConfig> metrics_of(const Json& settings, OutputType type, const std::string& where) {
  std::vector<MetricConfig> metrics;
  if (!settings.contains("metric_list") || settings["metric_list"].is_null()) {
    for (const auto& name : default_metrics(type)) metrics.push_back({name, "", true, Json::object()});
  } else {
    for (const auto& entry : settings["metric_list"]) {
      if (!entry.contains("metric") || !entry["metric"].is_string())
        throw task_problem(where, "an entry of metric_list does not name its metric",
                           "a metric that is a Python function is not run");
      MetricConfig metric{entry["metric"].get<std::string>(), "", true, Json::object()};
      for (const auto& [key, value] : entry.items()) {
        if (value.is_object() && value.contains("!function"))
          throw task_problem(where, fmt::format("metric_list's {} is the Python function {}", key, value["!function"].dump()));
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

}  // namespace hone::eval
