// Evaluation between training steps.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "hone/base/log.h"
#include "hone/train/evaluation/evaluation_mode.h"
#include "hone/train/loop/trainer.h"

namespace hone::train {
namespace {

std::vector<std::string> metric_names(const Json& metrics) {
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics.items()) names.push_back(name);
  return names;
}

}  // namespace

void Trainer::evaluate_now(RunLog& log) {
  if ((deps_.evaluations.empty() && !deps_.benchmark) || last_evaluated_ == state_.global_step) return;
  last_evaluated_ = state_.global_step;
  if (deps_.benchmark) run_benchmark(log);
  if (deps_.evaluations.empty()) return;
  auto metrics = measure(log);
  if (!config_.metric_for_best_model.empty()) update_best_metric(metrics);
}

// A failed benchmark does not stop training, as in ms-swift.
void Trainer::run_benchmark(RunLog& log) {
  deps_.strategy.keep_gathered(true);
  if (deps_.strategy.rank() == 0) try {
      EvaluationMode mode(deps_.model);
      log.record(deps_.benchmark(state_.global_step), state_);
    } catch (const UserError& problem) {
      log::warning("step {}: the benchmarks were not run: {}", state_.global_step, problem.what());
    }
  deps_.strategy.sum(0);  // the others wait here
  deps_.strategy.keep_gathered(false);
}

// The metrics of all sets; each set is one line of the log.
Json Trainer::measure(RunLog& log) {
  Json all = Json::object();
  for (const auto& [prefix, make_loader] : deps_.evaluations) {
    auto loader = make_loader();
    Json metrics = evaluate(deps_.model, deps_.loss, *loader, device_, deps_.strategy, prefix, deps_.sequence,
                            /*kept_rows=*/nullptr, config_.eval_iters * config_.gradient_accumulation_steps);
    if (config_.eval_loss_only)
      for (const char* key : {"_token_acc", "_seq_acc", "_accuracy"}) metrics.erase(prefix + key);
    if (deps_.predict && &prefix == &deps_.evaluations.back().prefix) {
      deps_.strategy.keep_gathered(true);
      metrics.update(text_metrics(deps_.predict(), deps_.strategy));
      deps_.strategy.keep_gathered(false);
    }
    log.record(metrics, state_);
    all.update(metrics);
  }
  return all;
}

// Checks for the best result so far; the LR schedule and early stopping use it too.
void Trainer::update_best_metric(const Json& metrics) {
  std::string name = config_.metric_for_best_model;
  if (!name.starts_with("eval_")) name = "eval_" + name;
  if (!metrics.contains(name))
    throw UserError(ExitCode::usage,
                    fmt::format("`metric_for_best_model` {}: evaluation reports no {}", config_.metric_for_best_model, name),
                    fmt::format("it reports {}", fmt::join(metric_names(metrics), ", ")));
  double value = metrics[name].get<double>();
  if (deps_.lr_scheduler.needs_metric()) deps_.lr_scheduler.observe(value);
  bool greater = config_.greater_is_better.value_or(!name.ends_with("loss"));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double gain = !std::isfinite(value) ? -kInfinity
                : !state_.best_metric ? kInfinity
                : greater             ? value - *state_.best_metric
                                      : *state_.best_metric - value;
  state_.evaluations_without_gain = gain > config_.early_stop_threshold ? 0 : state_.evaluations_without_gain + 1;
  if (gain <= 0) return;
  state_.best_metric = value;
  state_.best_global_step = state_.global_step;
}

bool Trainer::stop_early() const {
  return config_.early_stop_patience && state_.evaluations_without_gain >= *config_.early_stop_patience;
}

}  // namespace hone::train
