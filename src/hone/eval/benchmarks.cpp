// The built-in benchmarks, as task configs over the files of a folder or hub dataset.
#include <algorithm>

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/eval/find_tasks.h"

namespace hone::eval {
namespace {

struct Benchmark {
  std::string_view name, dataset, settings;
  bool has_subjects;
  std::string_view only_subject = {};  // empty: all that the files have
};

constexpr std::string_view kArc = R"y(
output_type: multiple_choice
training_split: train
validation_split: validation
test_split: test
doc_to_text: "Question: {{question}}\nAnswer:"
doc_to_target: "{{choices.label.index(answerKey)}}"
doc_to_choice: "{{choices.text}}"
metric_list: [{metric: acc}, {metric: acc_norm}]
metadata: {version: 1.0}
)y";

// Prompts are those of lm-evaluation-harness's tasks of the same name; rows may come from the hubs' or the authors' own files.
constexpr Benchmark kBenchmarks[] = {
    {"mmlu", "cais/mmlu", R"y(
test_split: test
fewshot_split: dev
fewshot_config: {sampler: first_n}
output_type: multiple_choice
description: "The following are multiple choice questions (with answers) about SUBJECT.\n\n"
doc_to_text: "{% set c = choices if choices is defined else [A, B, C, D] %}{{question.strip()}}\nA. {{c[0]}}\nB. {{c[1]}}\nC. {{c[2]}}\nD. {{c[3]}}\nAnswer:"
doc_to_choice: ["A", "B", "C", "D"]
doc_to_target: "{{answer if answer is integer else ['A', 'B', 'C', 'D'].index(answer)}}"
metric_list: [{metric: acc}]
num_fewshot: 5
metadata: {version: 1.0}
)y",
     true},
    {"ceval", "ceval/ceval-exam", R"y(
validation_split: val
fewshot_split: dev
fewshot_config: {sampler: first_n}
output_type: multiple_choice
description: "以下是中国关于SUBJECT的单项选择题，请选出其中的正确答案。\n\n"
doc_to_text: "{{question.strip()}}\nA. {{A}}\nB. {{B}}\nC. {{C}}\nD. {{D}}\n答案："
doc_to_choice: ["A", "B", "C", "D"]
doc_to_target: "{{['A', 'B', 'C', 'D'].index(answer)}}"
metric_list: [{metric: acc}, {metric: acc_norm}]
num_fewshot: 5
metadata: {version: 2.0}
)y",
     true},
    {"cmmlu", "haonan-li/cmmlu", R"y(
test_split: test
fewshot_split: dev
fewshot_config: {sampler: first_n}
output_type: multiple_choice
description: "以下是关于SUBJECT的单项选择题，请直接给出正确答案的选项。\n\n"
doc_to_text: "{{Question.strip()}}\nA. {{A}}\nB. {{B}}\nC. {{C}}\nD. {{D}}\n答案："
doc_to_choice: ["A", "B", "C", "D"]
doc_to_target: "{{['A', 'B', 'C', 'D'].index(Answer)}}"
metric_list: [{metric: acc}, {metric: acc_norm}]
num_fewshot: 5
metadata: {version: 1.0}
)y",
     true},
    {"gsm8k", "openai/gsm8k:main", R"y(
output_type: generate_until
fewshot_split: train
test_split: test
doc_to_text: "Question: {{question}}\nAnswer:"
doc_to_target: "{{answer}}"
metric_list: [{metric: exact_match, ignore_case: true, ignore_punctuation: false, regexes_to_ignore: [",", "\\$", "(?s).*#### ", "\\.$"]}]
generation_kwargs: {until: ["Question:", "</s>", "<|im_end|>"], do_sample: false, temperature: 0.0}
num_fewshot: 5
filter_list:
  - {name: strict-match, filter: [{function: regex, regex_pattern: "#### (\\-?[0-9\\.\\,]+)"}, {function: take_first}]}
  - {name: flexible-extract, filter: [{function: regex, group_select: -1, regex_pattern: "(-?[$0-9.,]{2,})|(-?[0-9]+)"}, {function: take_first}]}
metadata: {version: 3.0}
)y",
     false},
    {"bbh", "SaylorTwift/bbh", R"y(
output_type: generate_until
test_split: test
doc_to_text: "Q: {{input}}\nA:"
doc_to_target: "{{target}}"
metric_list: [{metric: exact_match, ignore_case: true, regexes_to_ignore: ["\\.$", ",", "\n", "\\\\", "\""]}]
generation_kwargs: {until: ["</s>", "Q:", "<|im_end|>"], do_sample: false, temperature: 0.0}
num_fewshot: 0
metadata: {version: 3.0}
)y",
     true},
    {"arc", "allenai/ai2_arc", kArc, true},
    {"ARC_c", "allenai/ai2_arc", kArc, true, "ARC-Challenge"},  // OpenCompass's names
    {"ARC_e", "allenai/ai2_arc", kArc, true, "ARC-Easy"},
    {"math_500", "HuggingFaceH4/MATH-500", R"y(
output_type: generate_until
test_split: test
doc_to_text: "{{problem}}\nPlease reason step by step, and put your final answer within \\boxed{}."
doc_to_target: "{{'$' ~ answer ~ '$'}}"
metric_list: [{metric: math_verify}]
generation_kwargs: {until: [], max_gen_toks: 1024, do_sample: false}
metadata: {version: 1.0}
)y",
     false},
    {"general_mcq", "", R"y(
output_type: multiple_choice
validation_split: val
fewshot_split: dev
fewshot_config: {sampler: first_n}
doc_to_text: "{{question}}{% if A is defined %}\nA. {{A}}{% endif %}{% if B is defined %}\nB. {{B}}{% endif %}{% if C is defined %}\nC. {{C}}{% endif %}{% if D is defined %}\nD. {{D}}{% endif %}{% if E is defined %}\nE. {{E}}{% endif %}{% if F is defined %}\nF. {{F}}{% endif %}\nAnswer:"
doc_to_choice: "{{ (['A'] if A is defined else []) + (['B'] if B is defined else []) + (['C'] if C is defined else []) + (['D'] if D is defined else []) + (['E'] if E is defined else []) + (['F'] if F is defined else []) }}"
doc_to_target: "{{answer}}"
metric_list: [{metric: acc}]
metadata: {version: 1.0}
)y",
     true},
    {"general_qa", "", R"y(
output_type: generate_until
test_split: test
doc_to_text: "{{query if query is defined else question}}"
doc_to_target: "{{response if response is defined else answer}}"
metric_list: [{metric: exact_match}, {metric: f1}, {metric: rouge-1}, {metric: rouge-2}, {metric: rouge-l}, {metric: bleu-4}]
generation_kwargs: {until: [], max_gen_toks: 512, do_sample: false}
metadata: {version: 1.0}
)y",
     true},
};

const Benchmark* benchmark_named(std::string_view name) {
  auto found = std::ranges::find(kBenchmarks, name, &Benchmark::name);
  return found == std::end(kBenchmarks) ? nullptr : found;
}

// Settings of one benchmark in evalscope's dataset_args.
struct DatasetArgs {
  std::string path;
  std::vector<std::string> subsets;
  std::optional<int64_t> num_fewshot;
};

DatasetArgs dataset_args(const Benchmark& benchmark, const TaskSource& source) try {
  DatasetArgs args{.path = std::string(benchmark.dataset), .subsets = {}, .num_fewshot = {}};
  if (!benchmark.only_subject.empty()) args.subsets.emplace_back(benchmark.only_subject);
  auto given = source.dataset_args.value(std::string(benchmark.name), Json::object());
  for (const auto& [key, value] : given.items()) {
    if (key == "local_path" || key == "dataset_id")
      args.path = value.get<std::string>();
    else if (key == "subset_list")
      args.subsets = value.get<std::vector<std::string>>();
    else if (key == "few_shot_num")
      args.num_fewshot = value.get<int64_t>();
    else
      throw UserError(ExitCode::usage, fmt::format("`eval_dataset_args`: {} has {}, which is not followed", benchmark.name, key),
                      "expected local_path, dataset_id, subset_list or few_shot_num; a task file says more");
  }
  if (args.path.empty())
    throw UserError(ExitCode::usage, fmt::format("{} needs a folder", benchmark.name),
                    fmt::format("`eval_dataset_args` '{{\"{}\": {{\"local_path\": \"folder\"}}}}'", benchmark.name));
  return args;
} catch (const Json::exception& problem) {
  throw UserError(
      ExitCode::usage, fmt::format("`eval_dataset_args` of {}: {}", benchmark.name, problem.what()),
      "expected an object: local_path and dataset_id are texts, subset_list is a list of texts, few_shot_num a number");
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

}  // namespace

std::vector<std::string> known_benchmarks() {
  std::vector<std::string> names;
  for (const auto& benchmark : kBenchmarks) names.emplace_back(benchmark.name);
  return names;
}

bool add_benchmark(const std::string& name, const TaskSource& source, TaskSet& set) {
  const auto* benchmark = benchmark_named(name);
  if (!benchmark) return false;
  auto settings = parse_yaml(benchmark->settings).or_throw(ExitCode::failure, name);
  auto args = dataset_args(*benchmark, source);
  std::string subset;
  if (auto colon = args.path.find(':'); colon != args.path.npos && !fs::exists(args.path)) {
    subset = args.path.substr(colon + 1);
    args.path.resize(colon);
  }
  auto folder = dataset_folder({.path = args.path, .subset = "", .data_files = {}, .task_folder = {}}, source.fetch);
  if (args.num_fewshot) settings["num_fewshot"] = *args.num_fewshot;
  settings["dataset_path"] = folder.string();
  if (benchmark->has_subjects && args.subsets.empty() && fs::is_directory(folder))
    args.subsets = list_subsets(folder, settings.value("test_split", settings.value("validation_split", std::string("test"))));
  if (!benchmark->has_subjects || args.subsets.empty()) {
    settings["task"] = name;
    settings["dataset_name"] = fs::is_directory(folder / subset) ? subset : "";
    if (settings.contains("description")) settings.erase("description");
    set.tasks.push_back(make_task(settings, name, folder));
    return true;
  }
  Group group{.name = name, .alias = name, .members = {}, .metrics = {}};
  for (const auto& subject : args.subsets) {
    auto own = settings;
    own["task"] = name + "_" + subject;
    own["task_alias"] = subject;
    own["dataset_name"] = subject;
    if (own.contains("description")) {
      auto text = own["description"].get<std::string>();
      constexpr std::string_view kMark = "SUBJECT";
      own["description"] = text.replace(text.find(kMark), kMark.size(), subject_title(folder, subject, name != "mmlu"));
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
