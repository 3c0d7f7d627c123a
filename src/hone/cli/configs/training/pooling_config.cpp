#include "hone/cli/configs/training/pooling_config.h"

#include <algorithm>
#include <charconv>

#include "hone/base/error.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/parsing/environment.h"

namespace hone::cli {
namespace {

using train::ProblemType;
using train::Task;
using train::TaskConfig;

// A numeric environment variable: ms-swift reads the settings of these losses from there.
double variable_number(const char* variable, double otherwise) {
  const auto text = environment_value(variable);
  if (text.empty()) return otherwise;
  double number = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size())
    throw UserError(ExitCode::usage, fmt::format("{} is \"{}\"", variable, text), "expected a number");
  return number;
}

std::string variable_text(const char* variable, const std::string& otherwise) {
  const auto text = environment_value(variable);
  return text.empty() ? otherwise : text;
}

bool variable_flag(const char* variable, bool otherwise) {
  const auto text = environment_value(variable);
  if (text.empty()) return otherwise;
  if (const auto flag = environment_flag(system_access(), variable)) return *flag;
  throw UserError(ExitCode::usage, fmt::format("{} is \"{}\"", variable, text), "expected true or false");
}

train::InfonceConfig infonce_config() {
  train::InfonceConfig config;
  config.temperature = variable_number("INFONCE_TEMPERATURE", config.temperature);
  config.use_batch = variable_flag("INFONCE_USE_BATCH", config.use_batch);
  if (!environment_value("INFONCE_HARD_NEGATIVES").empty())
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

}  // namespace

std::string pooling_loss(const Options& options, Task task) {
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

void read_loss_settings(const ModelArguments& args, TaskConfig& config) {
  config.positive_word = variable_text("GENERATIVE_RERANKER_POSITIVE_TOKEN", config.positive_word);
  config.negative_word = variable_text("GENERATIVE_RERANKER_NEGATIVE_TOKEN", config.negative_word);
  config.ordered_weight = variable_number("OMNIJEV_RPS_WEIGHT", config.ordered_weight);
  config.brier_weight = variable_number("CLEF_BRIER_WEIGHT", config.brier_weight);
  config.smoothing = variable_number("CLEF_LABEL_SMOOTHING", config.smoothing);
  config.infonce = infonce_config();
  config.listwise = listwise_config();
  config.mrl_dims = nested_sizes(args);
}

data::PoolingDataConfig pooling_rows(const TaskConfig& task) {
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

}  // namespace hone::cli
