#include "hone/cli/parsing/resolve_auto.h"

#include <cmath>
#include <iterator>

#include "hone/base/log.h"
#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/distributed.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/output.h"
#include "hone/cli/arguments/preference.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/arguments/tuners.h"
#include "hone/cli/configs/training/trainer_config.h"

namespace hone::cli {
namespace {

// ms-swift's default is 16 rows per step over all devices.
int64_t accumulation_for(int64_t batch, int world_size) {
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(16.0 / static_cast<double>(batch) / world_size)));
}

double beta_of(const std::string& method) {
  if (method == "simpo") return 2.0;
  if (method == "grpo") return 0.04;
  return method == "gkd" ? 0.5 : 0.1;
}

std::string loss_of_method(const std::string& method) {
  if (method == "simpo" || method == "kto" || method == "grpo") return method;
  return method == "dpo" || method == "cpo" ? "sigmoid" : "";
}

// Not used without evaluation.
bool concerns_evaluation(std::string_view name) {
  return name == "eval_steps" || name == "metric_for_best_model" || name == "greater_is_better";
}

// ms-swift skips evaluation if there is no validation data, even if requested; LLaMA-Factory rejects this.
void settle_evaluation(Options& options, bool has_data) {
  const DataArguments data(options);
  const TrainingArguments training(options);
  const bool in_vain =
      !data.uses_factory_dialect() && training.eval_strategy.is_set() && *training.eval_strategy != "no" && !has_data;
  if (in_vain) options.resolve(training.eval_strategy.name(), "no");
  const AnyArg* unused = &training.eval_steps;
  if (training.early_stop_interval.is_set()) unused = &training.early_stop_interval;
  if (in_vain) unused = &training.eval_strategy;
  if (*training.eval_strategy != "no" || !(in_vain || unused->is_set())) return;
  log::warning("{} has no effect: nothing is evaluated; that needs {} or {}{}", unused->flag(), data.val_dataset.flag(),
               data.split_dataset_ratio.flag(),
               in_vain ? "" : fmt::format(", and {} other than no", training.eval_strategy.flag()));
}

// Ranks that share a model or a sequence process the same rows.
int64_t ranks_of_same_rows(const Options& options) {
  const DistributedArguments distributed(options);
  if (distributed.deepspeed_autotp_size.has_value()) return *distributed.deepspeed_autotp_size;
  if (!distributed.tensor_parallel_size.exists()) return 1;
  return *distributed.tensor_parallel_size * *distributed.pipeline_parallel_size * *distributed.context_parallel_size;
}

// Values of every training run, in the order of their dependencies.
void resolve_training(Options& options, int world_size) {
  const DataArguments data(options);
  const TrainingArguments training(options);
  const OutputArguments output(options);
  const bool rlhf = options.verb() & kRlhf;
  const auto method = *PreferenceArguments(options).rlhf_type;
  const bool grpo = rlhf && method == "grpo";
  auto resolve = [&](const AnyArg& option, Json value) { options.resolve(option.name(), std::move(value)); };
  if (training.gradient_accumulation_steps.is_auto())
    resolve(training.gradient_accumulation_steps,
            grpo ? 1
                 : accumulation_for(*training.per_device_train_batch_size,
                                    std::max<int64_t>(world_size / ranks_of_same_rows(options), 1)));
  if (data.packing.is_auto()) resolve(data.packing, *training.stage == "pt" || *data.neat_packing);
  const bool has_data = has_validation_data(options);
  if (training.eval_strategy.is_auto()) {
    const auto saving = *output.save_strategy;
    resolve(training.eval_strategy, has_data ? (saving == "best" ? "steps" : saving) : "no");
  }
  settle_evaluation(options, has_data);
  const bool every_steps = *training.eval_strategy == "steps";
  if (training.eval_steps.is_auto())
    resolve(training.eval_steps, data.uses_factory_dialect() ? *output.logging_steps : *output.save_steps);
  if (every_steps && *training.eval_steps == 0) resolve(training.eval_steps, *output.logging_steps);  // as in transformers
  if (training.metric_for_best_model.is_auto())
    resolve(training.metric_for_best_model, grpo || (rlhf ? method : *training.stage) == "ppo" ? "reward"
                                            : *training.predict_with_generate                  ? "rouge-l"
                                                                                               : "loss");
  if (training.greater_is_better.is_auto())
    resolve(training.greater_is_better, !training.metric_for_best_model->ends_with("loss"));
}

void resolve_preference(Options& options) {
  const ModelArguments model(options);
  const PreferenceArguments preference(options);
  const auto method = *preference.rlhf_type;
  auto resolve = [&](const AnyArg& option, Json value) { options.resolve(option.name(), std::move(value)); };
  if (preference.beta.is_auto()) resolve(preference.beta, beta_of(method));
  if (method == "rm") {  // ms-swift's reward models are classifiers with one class
    if (!model.task_type.is_set()) resolve(model.task_type, "seq_cls");
    if (!model.num_labels.is_set()) resolve(model.num_labels, 1);
  }
  if (preference.loss_type.is_auto())
    if (auto loss = loss_of_method(method); !loss.empty()) resolve(preference.loss_type, Json::array({loss}));
}

// `hone train` has ms-swift's defaults, which decide these by the method. LLaMA-Factory has one value for all.
void resolve_stage(Options& options) {
  const PreferenceArguments args(options);
  const auto stage = *TrainingArguments(options).stage;
  if (stage != "dpo" && stage != "kto") return;
  if (args.beta.is_auto()) options.resolve(args.beta.name(), 0.1);
  if (stage == "dpo" && !args.loss_type.has_value()) options.resolve(args.loss_type.name(), Json::array({"sigmoid"}));
}

}  // namespace

std::string describe_auto_values(const Options& options) {
  const bool evaluates = *TrainingArguments(options).eval_strategy != "no";
  std::string values;
  for (const auto* setting : options.in_order()) {
    if (setting->source != Source::automatic || (!evaluates && concerns_evaluation(setting->option->name))) continue;
    fmt::format_to(std::back_inserter(values), "{}{} {}", values.empty() ? "" : ", ",
                   options.display_name(setting->option->name).substr(2), show_value(setting->value));
  }
  return values;
}

void resolve_auto_values(Options& options, int world_size) {
  const DataArguments data(options);
  const OptimizerArguments optimizer(options);
  const TunerArguments tuner(options);
  const auto method = *PreferenceArguments(options).rlhf_type;
  if (optimizer.learning_rate.is_auto())
    options.resolve(optimizer.learning_rate.name(), *tuner.tuner_type == "full" ? 1e-5 : 1e-4);
  if (tuner.lora_alpha.is_auto()) options.resolve(tuner.lora_alpha.name(), 2.0 * static_cast<double>(*tuner.lora_rank));
  if (data.packing_length.is_auto() && data.max_length.has_value()) options.resolve(data.packing_length.name(), *data.max_length);
  if (options.verb() & kTraining) resolve_training(options, world_size);
  if (options.verb() & kRlhf) resolve_preference(options);
  if (options.verb() & kTrain) resolve_stage(options);
  if (data.truncation_strategy.is_auto())
    options.resolve(data.truncation_strategy.name(), method == "grpo" || method == "gkd" ? "left" : "delete");
}

}  // namespace hone::cli
