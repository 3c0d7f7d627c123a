#include "hone/cli/configs/training/task_config.h"

#include <charconv>
#include <cstdlib>

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/base/model_file.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/preference.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/model_checks.h"
#include "hone/cli/parsing/environment.h"
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

// A numeric environment variable: ms-swift reads the settings of these losses from there.
double variable_number(const char* variable, double otherwise) {
  const char* text = std::getenv(variable);
  if (!text || !*text) return otherwise;
  double number = 0;
  std::string_view word = text;
  auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (status != std::errc() || end != word.data() + word.size())
    throw UserError(ExitCode::usage, fmt::format("{} is \"{}\"", variable, word), "expected a number");
  return number;
}

std::string variable_text(const char* variable, const std::string& otherwise) {
  const char* text = std::getenv(variable);
  return text && *text ? text : otherwise;
}

bool variable_flag(const char* variable, bool otherwise) {
  const char* text = std::getenv(variable);
  if (!text || !*text) return otherwise;
  if (const auto flag = environment_flag(system_access(), variable)) return *flag;
  throw UserError(ExitCode::usage, fmt::format("{} is \"{}\"", variable, text), "expected true or false");
}

train::InfonceConfig infonce_config() {
  train::InfonceConfig config;
  config.temperature = variable_number("INFONCE_TEMPERATURE", config.temperature);
  config.use_batch = variable_flag("INFONCE_USE_BATCH", config.use_batch);
  if (const char* count = std::getenv("INFONCE_HARD_NEGATIVES"); count && *count)
    config.hard_negatives = static_cast<int64_t>(variable_number("INFONCE_HARD_NEGATIVES", 0));
  config.mask_fake_negatives = variable_flag("INFONCE_MASK_FAKE_NEGATIVE", config.mask_fake_negatives);
  config.fake_margin = variable_number("INFONCE_FAKE_NEG_MARGIN", config.fake_margin);
  config.include_queries = variable_flag("INFONCE_INCLUDE_QQ", config.include_queries);
  config.include_documents = variable_flag("INFONCE_INCLUDE_DD", config.include_documents);
  if (!(config.temperature > 0)) throw UserError(ExitCode::usage, "INFONCE_TEMPERATURE is not above 0");
  return config;
}

train::ListwiseConfig listwise_config() {
  train::ListwiseConfig config;
  config.temperature = variable_number("LISTWISE_RERANKER_TEMPERATURE", config.temperature);
  config.smallest_group =
      static_cast<int64_t>(variable_number("LISTWISE_RERANKER_MIN_GROUP_SIZE", static_cast<double>(config.smallest_group)));
  if (!(config.temperature > 0)) throw UserError(ExitCode::usage, "LISTWISE_RERANKER_TEMPERATURE is not above 0");
  return config;
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

// Matryoshka dimensions as {"512": 1.0, "256": 0.5}.
std::vector<std::pair<int64_t, double>> nested_sizes(const ModelArguments& args) {
  std::vector<std::pair<int64_t, double>> sizes;
  if (!args.mrl_dims.has_value()) return sizes;
  auto map = *args.mrl_dims;
  for (const auto& [text, weight] : map.is_object() ? map.items() : Json::object().items()) {
    int64_t size = 0;
    auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (status != std::errc() || end != text.data() + text.size() || size <= 0 || !weight.is_number())
      sizes.clear();
    else
      sizes.emplace_back(size, weight.template get<double>());
  }
  if (sizes.size() != map.size() || sizes.empty())
    throw UserError(ExitCode::usage, fmt::format("{} is {}", args.mrl_dims.flag(), map.dump()),
                    "expected sizes with their weights, as in {\"512\": 1.0, \"256\": 0.5}");
  return sizes;
}

std::string loss_of(const Options& options, Task task) {
  const ModelArguments model_args(options);
  const TrainingArguments training_args(options);
  bool given = options.verb() & (kSft | kPt) && !uses_factory_dialect(options) &&
               training_args.loss_type.has_value();  // the other losses are for preferences
  auto asked = given ? *training_args.loss_type : "";
  static const std::vector<std::string> kLikeness = {"infonce", "cosine_similarity", "contrastive", "online_contrastive"},
                                        kRelevance = {"pointwise_reranker", "listwise_reranker"};
  // Older scripts select the generative variants by separate loss names, which compute the same.
  if (asked == "generative_reranker") asked = "pointwise_reranker";
  if (asked == "listwise_generative_reranker") asked = "listwise_reranker";
  static const std::vector<std::string> kOther = {"cross_entropy"},
                                        kDecision = {"scoring", "distill_rps", "smooth_brier", "ce_rps"};
  const auto& known = task == Task::decision                                        ? kDecision
                      : task == Task::embedding                                     ? kLikeness
                      : task == Task::reranker || task == Task::generative_reranker ? kRelevance
                                                                                    : kOther;
  if (asked.empty()) return known.front();
  if (!std::ranges::count(known, asked))
    throw UserError(ExitCode::usage,
                    fmt::format("{} {} does not go with {} {}", training_args.loss_type.flag(), asked,
                                model_args.task_type.flag(), *model_args.task_type),
                    fmt::format("expected {}", fmt::join(known, ", ")));
  return asked;
}

data::PoolingDataConfig group_rows(const TaskConfig& task) {
  data::PoolingDataConfig groups;
  groups.kind = task.task == Task::decision    ? data::PoolingTask::decisions
                : task.task == Task::seq_cls   ? data::PoolingTask::classes
                : task.task == Task::embedding ? data::PoolingTask::embedding
                                               : data::PoolingTask::reranking;
  groups.whole_numbers = task.problem != ProblemType::regression;
  groups.one_class = task.problem == ProblemType::single_label;
  groups.classes = task.labels;
  groups.most_positives = static_cast<int64_t>(variable_number("MAX_POSITIVE_SAMPLES", 1));
  groups.most_negatives = static_cast<int64_t>(variable_number("MAX_NEGATIVE_SAMPLES", 7));
  return groups;
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
  config.loss = loss_of(options, config.task);
  if (!std::filesystem::exists(folder / "config.json")) return config;  // loading the model reports missing files
  auto hf = folder_config(folder);
  if (config.is_generative() && !args.task_type.is_set() && holds_classifier(hf)) config.task = Task::seq_cls;
  if (config.task == Task::seq_cls || config.task == Task::reranker) {
    config.labels = labels_of(args, hf, config.task);
    config.problem = problem_of_labels(args, hf, config.labels);
  }
  config.positive_word = variable_text("GENERATIVE_RERANKER_POSITIVE_TOKEN", config.positive_word);
  config.negative_word = variable_text("GENERATIVE_RERANKER_NEGATIVE_TOKEN", config.negative_word);
  config.ordered_weight = variable_number("OMNIJEV_RPS_WEIGHT", config.ordered_weight);
  config.brier_weight = variable_number("CLEF_BRIER_WEIGHT", config.brier_weight);
  config.smoothing = variable_number("CLEF_LABEL_SMOOTHING", config.smoothing);
  config.infonce = infonce_config();
  config.listwise = listwise_config();
  config.mrl_dims = nested_sizes(args);
  return config;
}

std::optional<data::PoolingDataConfig> pooling_data_config(const Options& options, const std::filesystem::path& folder) {
  auto task = task_config(options, folder);
  return task.is_generative() ? std::nullopt : std::optional(group_rows(task));
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
    job.loader.groups = job.eval_loader.groups = group_rows(job.task);
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
