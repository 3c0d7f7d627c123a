// The one place where "auto" becomes a value.
#include <cmath>
#include <iterator>

#include "hone/base/log.h"
#include "hone/cli/parsing/parse.h"

namespace hone::cli {
namespace {

// ms-swift aims at 16 rows per step over all devices.
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

// Without evaluation nothing reads these.
bool concerns_evaluation(std::string_view name) {
  return name == "eval_steps" || name == "metric_for_best_model" || name == "greater_is_better";
}

// ms-swift evaluates nothing where there is nothing to evaluate on, whatever is asked; LLaMA-Factory refuses.
void settle_evaluation(Options& options, bool has_data) {
  const bool in_vain = options.text("dialect") != "factory" && options.is_set("eval_strategy") &&
                       options.text("eval_strategy") != "no" && !has_data;
  if (in_vain) options.resolve("eval_strategy", "no");
  if (options.text("eval_strategy") != "no" || !(in_vain || options.is_set("eval_steps"))) return;
  log::warning("{} has no effect: nothing is evaluated; that needs {} or {}{}",
               options.display_name(in_vain ? "eval_strategy" : "eval_steps"), options.display_name("val_dataset"),
               options.display_name("split_dataset_ratio"),
               in_vain ? "" : fmt::format(", and {} other than no", options.display_name("eval_strategy")));
}

}  // namespace

std::string describe_auto_values(const Options& options) {
  bool evaluates = options.text("eval_strategy") != "no";
  std::string values;
  for (const auto* setting : options.in_order()) {
    if (setting->source != Source::automatic || (!evaluates && concerns_evaluation(setting->option->name))) continue;
    fmt::format_to(std::back_inserter(values), "{}{} {}", values.empty() ? "" : ", ",
                   options.display_name(setting->option->name).substr(2), show_value(setting->value));
  }
  return values;
}

void resolve_auto_values(Options& options, int world_size) {
  auto undecided = [&](std::string_view name) { return options.has_option(name) && options.setting(name).is_auto; };
  if (undecided("learning_rate")) options.resolve("learning_rate", options.text("tuner_type") == "full" ? 1e-5 : 1e-4);
  if (undecided("lora_alpha")) options.resolve("lora_alpha", 2.0 * static_cast<double>(options.integer("lora_rank")));
  const bool grpo = options.verb() & kRlhf && options.text("rlhf_type") == "grpo";
  if (undecided("gradient_accumulation_steps"))
    options.resolve("gradient_accumulation_steps",
                    grpo ? 1 : accumulation_for(options.integer("per_device_train_batch_size"), world_size));
  if (undecided("packing") && options.verb() & kTraining)
    options.resolve("packing",
                    options.text("stage") == "pt" || (options.has_option("neat_packing") && options.flag("neat_packing")));
  if (undecided("packing_length") && options.has("max_length")) options.resolve("packing_length", options.integer("max_length"));
  const bool has_data = options.verb() & kTraining && (options.has("val_dataset") || options.has("cached_val_dataset") ||
                                                       options.real("split_dataset_ratio") > 0);
  if (undecided("eval_strategy")) {
    auto saving = options.text("save_strategy");
    options.resolve("eval_strategy", has_data ? (saving == "best" ? "steps" : saving) : "no");
  }
  if (options.verb() & kTraining) settle_evaluation(options, has_data);
  if (undecided("eval_steps")) {
    bool factory = options.text("dialect") == "factory";
    options.resolve("eval_steps", options.real(factory ? "logging_steps" : "save_steps"));
  }
  if (undecided("metric_for_best_model"))
    options.resolve("metric_for_best_model", grpo || options.text(options.verb() & kRlhf ? "rlhf_type" : "stage") == "ppo"
                                                 ? "reward"
                                             : options.flag("predict_with_generate") ? "rouge-l"
                                                                                     : "loss");
  if (undecided("greater_is_better"))
    options.resolve("greater_is_better", !options.text("metric_for_best_model").ends_with("loss"));
  if (options.verb() & kRlhf && undecided("beta")) options.resolve("beta", beta_of(options.text("rlhf_type")));
  if (options.verb() & kRlhf && options.text("rlhf_type") == "rm") {  // ms-swift's are classifiers of one class
    if (!options.is_set("task_type")) options.resolve("task_type", "seq_cls");
    if (!options.is_set("num_labels")) options.resolve("num_labels", 1);
  }
  if (undecided("truncation_strategy"))
    options.resolve("truncation_strategy",
                    options.text("rlhf_type") == "grpo" || options.text("rlhf_type") == "gkd" ? "left" : "delete");
  if (options.verb() & kRlhf && undecided("loss_type"))
    if (auto loss = loss_of_method(options.text("rlhf_type")); !loss.empty()) options.resolve("loss_type", Json::array({loss}));
}

}  // namespace hone::cli
