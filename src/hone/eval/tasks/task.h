// A benchmark as in lm-evaluation-harness's task files: its documents, prompts and metrics.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hone/eval/scores/filters.h"
#include "hone/eval/tasks/field.h"

namespace hone::eval {

enum class OutputType { multiple_choice, generate_until, loglikelihood, loglikelihood_rolling };

struct MetricConfig {
  std::string name, aggregation;
  bool higher_is_better = true;
  Json arguments = Json::object();  // ignore_case …
};

struct DatasetConfig {
  std::string path, subset;           // a folder, a file, an id on a hub, or json, csv, parquet with data_files
  Json data_files;                    // split to file or files
  std::filesystem::path task_folder;  // relative files may be there
};

struct FewshotConfig {
  std::string sampler = "default";  // or first_n
  std::optional<std::string> split;
  Json samples;                 // documents written in the task itself
  std::vector<size_t> indices;  // which of them; empty: all
  Field text, target, choices, gen_prefix;
  std::string target_delimiter, fewshot_delimiter;
};

struct GenerationKwargs {
  std::vector<std::string> until;
  int64_t max_gen_toks = 256;
  double temperature = 0, top_p = 1, min_p = 0, repetition_penalty = 1;
  int64_t top_k = 0;  // 0: all tokens

  bool set(const std::string& key, const Json& value);  // false: `key` is none of the numbers
};

struct Task {
  std::string name, alias, version = "Yaml";
  OutputType output_type = OutputType::generate_until;
  DatasetConfig dataset;
  std::optional<std::string> training_split, validation_split, test_split;
  Field text, target, choices, description, gen_prefix;
  std::string target_delimiter = " ", fewshot_delimiter = "\n\n";
  FewshotConfig fewshot;
  int64_t num_fewshot = 0, repeats = 1;
  GenerationKwargs generation;
  std::vector<FilterPipeline> filters;
  std::vector<MetricConfig> metrics;
  std::string process_docs, process_results;  // what hone has of lm-evaluation-harness's functions; empty: nothing
  Json config;                                // as written, for the report

  const std::string& evaluated_split() const { return test_split ? *test_split : *validation_split; }
  bool asks_for(std::string_view metric) const;
  bool runs_programs() const;  // pass@k
  // The index of the right choice if doc_to_text is one: the choices are then questions that have the answer doc_to_target in
  // common (winogrande).
  std::optional<size_t> right_input(const Json& document) const;
};

// The means of several tasks together.
struct GroupMetric {
  std::string metric;
  std::vector<std::string> filters;  // empty: those that its tasks have
  bool weight_by_size = true;
};
struct Group {
  std::string name, alias, version = "N/A";
  std::vector<std::string> members;  // tasks and groups
  std::vector<GroupMetric> metrics;
};

// The result of resolving a list of names.
struct TaskSet {
  std::vector<Task> tasks;    // each once, in the order they were named
  std::vector<Group> groups;  // children before parents
};

// A task from its settings. `where` names them in messages. Throws UserError(bad_data) naming unsupported settings.
Task make_task(const Json& settings, const std::string& where, const std::filesystem::path& task_folder);
Group make_group(const Json& settings, const std::string& where);

}  // namespace hone::eval
