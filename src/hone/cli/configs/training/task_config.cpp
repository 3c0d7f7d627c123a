#include "hone/cli/configs/training/task_config.h"

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/base/model_file.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/preference.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/model_checks.h"
#include "hone/cli/configs/training/pooling_config.h"
#include "hone/hub/locate.h"
#include "hone/io/peft.h"
#include "hone/io/value_head.h"
#include "hone/model/config.h"
#include "hone/text/tokenizer.h"

namespace hone::cli {
namespace {

using train::ProblemType;
using train::Task;
using train::TaskConfig;

constexpr std::string_view kClassifierEnding = "ForSequenceClassification";
constexpr std::pair<std::string_view, ProblemType> kProblems[] = {{"regression", ProblemType::regression},
                                                                  {"single_label_classification", ProblemType::single_label},
                                                                  {"multi_label_classification", ProblemType::multi_label}};

template <class Value, size_t N>
Value named(const std::pair<std::string_view, Value> (&list)[N], std::string_view name) {
  for (const auto& [known, value] : list)
    if (known == name) return value;
  HONE_CHECK(false, "no row called {}", name);
}

bool holds_classifier(const Json& hf) {
  auto listed = hf.value("architectures", Json::array());
  const auto name = listed.is_array() && !listed.empty() && listed[0].is_string() ? listed[0].get<std::string>() : "";
  if (name.ends_with("RewardModel")) return false;  // Qwen's, with heads of their own (methods/reward_model.h)
  return name.ends_with(kClassifierEnding) ||
         (hf.contains("num_labels") && model::parse_config(hf, "config.json").num_labels > 0);
}

int64_t labels_of(const ModelArguments& args, const Json& hf, Task task) {
  if (args.num_labels.has_value()) return *args.num_labels;
  if (holds_classifier(hf)) return model::parse_config(hf, "config.json").num_labels;
  if (task == Task::reranker) return 1;
  throw UserError(ExitCode::usage, fmt::format("{} seq_cls needs the number of classes", args.task_type.flag()),
                  fmt::format("add {} 2", args.num_labels.flag()));
}

ProblemType problem_of_labels(const ModelArguments& args, const Json& hf, int64_t labels) {
  if (args.problem_type.has_value()) return named(kProblems, *args.problem_type);
  if (auto saved = hf.value("problem_type", Json()); saved.is_string())
    for (const auto& [name, problem] : kProblems)
      if (saved == name) return problem;
  return labels == 1 ? ProblemType::regression : ProblemType::single_label;
}

// Each task and loss has its own metrics; a metric of another task is rejected.
void check_measure(const Options& options, const TaskConfig& task) {
  const ModelArguments model_args(options);
  const TrainingArguments training_args(options);
  auto asked = *training_args.eval_metric;
  bool embeds = task.task == Task::embedding, ranks = task.task == Task::reranker || task.task == Task::generative_reranker;
  bool fits = asked == "infonce"    ? embeds && task.loss == "infonce"
              : asked == "paired"   ? embeds && task.loss != "infonce"
              : asked == "reranker" ? ranks
              : asked == "nlg"      ? task.is_generative()
                                    : true;
  if (!fits)
    throw UserError(ExitCode::usage,
                    fmt::format("{} {} does not go with {} {} and its loss {}", training_args.eval_metric.flag(), asked,
                                model_args.task_type.flag(), *model_args.task_type, task.loss),
                    "leave it out: each task and loss has its own measures");
}

// A reward model is a classifier; every other preference method, GRPO and most tasks need a generative model.
void check_head(const Options& options, const train::TrainingJob& job) {
  const ModelArguments model_args(options);
  const PreferenceArguments preference_args(options);
  const auto task = job.task.task;
  const bool rewards = options.verb() & kRlhf && *preference_args.rlhf_type == "rm", prefers = options.verb() & kRlhf && !rewards;
  if ((prefers && model_args.task_type.is_set() && !job.task.is_generative()) || (rewards && task != Task::seq_cls))
    throw UserError(ExitCode::usage,
                    fmt::format("{} {} does not go with {} {}", model_args.task_type.flag(), *model_args.task_type,
                                preference_args.rlhf_type.flag(), *preference_args.rlhf_type),
                    "leave it out");
  if (rewards && job.task.labels != 1)
    throw UserError(ExitCode::usage,
                    fmt::format("{} is {}, and a reward model outputs one score", model_args.num_labels.flag(), job.task.labels),
                    "leave it out");
  const bool of_tokens = prefers || job.task.is_generative() || task == Task::generative_reranker || task == Task::decision;
  if (of_tokens) require_generative_model(job.model_folder, model::read_config(job.model_folder, job.load.changes.config));
}

Json folder_config(const std::filesystem::path& folder) { return read_model_file(folder / "config.json"); }

}  // namespace

std::optional<std::filesystem::path> value_head_folder(const Options& options, const std::filesystem::path& folder) {
  if (options.verb() & (kTraining | kPreview)) return std::nullopt;
  const ModelArguments args(options);
  const bool by_stage = *TrainingArguments(options).stage == "rm";
  if (!by_stage && *args.task_type != "seq_cls") return std::nullopt;
  auto newest = folder;
  for (const auto& adapter : *args.adapters)
    if (fs::exists(adapter) || adapter.find('=') == adapter.npos)
      newest = hub::locate_adapter(adapter);  // named adapters are for requests
  if (io::holds_value_head(newest)) return newest;
  if (!by_stage) return std::nullopt;
  throw UserError(ExitCode::bad_checkpoint,
                  fmt::format("{}: stage is rm, and there is no {}", newest.string(), io::kValueHeadFile),
                  "name the folder that a run of stage: rm wrote");
}

TaskConfig task_config(const Options& options, const std::filesystem::path& folder) {
  const ModelArguments args(options);
  TaskConfig config;
  if (value_head_folder(options, folder))
    return {.task = Task::seq_cls, .problem = ProblemType::regression, .labels = 1, .uses_value_head = true};
  if (!args.task_type.exists() || (options.verb() & kTraining && uses_factory_dialect(options)))
    return config;  // LLaMA-Factory selects training by stage
  config.task = named(train::kTaskNames, *args.task_type);
  config.loss = pooling_loss(options, config.task);
  if (!std::filesystem::exists(folder / "config.json")) return config;  // loading the model reports missing files
  auto hf = folder_config(folder);
  if (config.is_generative() && !args.task_type.is_set() && holds_classifier(hf)) config.task = Task::seq_cls;
  if (config.task == Task::seq_cls || config.task == Task::reranker) {
    config.labels = labels_of(args, hf, config.task);
    config.problem = problem_of_labels(args, hf, config.labels);
  }
  read_loss_settings(args, config);
  return config;
}

std::optional<data::PoolingDataConfig> pooling_data_config(const Options& options, const std::filesystem::path& folder) {
  auto task = task_config(options, folder);
  return task.is_generative() ? std::nullopt : std::optional(pooling_rows(task));
}

Json task_changes(const Options& options, const std::filesystem::path& folder) {
  auto task = task_config(options, folder);
  if (task.uses_value_head || (task.task != Task::seq_cls && task.task != Task::reranker)) return Json::object();
  auto hf = folder_config(folder);
  std::string problem;
  for (const auto& [name, value] : kProblems)
    if (task.task == Task::seq_cls && value == task.problem) problem = name;
  auto changes = model::classifier_changes(hf, task.labels, problem);
  // transformers pools at the last non-padding token.
  if (hf.value("pad_token_id", Json()).is_null())
    if (auto tokenizer = text::Tokenizer::load(folder); tokenizer->special().pad)
      changes["pad_token_id"] = *tokenizer->special().pad;
  return changes;
}

void note_new_head(const Options& options, const std::filesystem::path& folder) {
  auto task = task_config(options, folder);
  if (task.labels == 0 || task.uses_value_head || holds_classifier(folder_config(folder))) return;
  auto brings_head = [](std::string adapter) {
    auto equals = fs::exists(adapter) ? adapter.npos : adapter.find('=');
    if (equals != adapter.npos) adapter = adapter.substr(equals + 1);
    return io::adapter_files_in(adapter) && io::read_adapter_config(adapter).task_type == "SEQ_CLS";
  };
  if (std::ranges::none_of(*ModelArguments(options).adapters, brings_head))
    log::info("{}: the head with {} outputs is newly initialized", folder.string(), task.labels);
}

void apply_task(const Options& options, train::TrainingJob& job) {
  job.task = task_config(options, job.model_folder);
  check_measure(options, job.task);
  check_head(options, job);
  if (job.task.is_generative()) return;
  bool pairs = options.verb() & kRlhf;  // of a reward model
  if (!pairs) {
    job.datasets.prompts_only = true;
    job.loader.groups = job.eval_loader.groups = pooling_rows(job.task);
  }
  bool scores = job.task.task == Task::seq_cls || job.task.task == Task::reranker;
  // As in PEFT for classifiers: the head is new and fully trained.
  if (scores) job.tuner.lora.modules_to_save.insert(job.tuner.lora.modules_to_save.end(), {"classifier", "score"});
  job.tuner.peft_task = scores ? "SEQ_CLS" : job.task.task == Task::embedding ? "" : "CAUSAL_LM";
  // The LM head does not take part in computing an embedding.
  if (job.task.task == Task::embedding && !model::read_config(job.model_folder, job.load.changes.config).tie_word_embeddings)
    job.tuner.parameters.freeze.push_back("lm_head");
}

}  // namespace hone::cli
