#include "hone/optim/lr_scheduler.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "hone/base/config_error.h"
#include "hone/optim/lr_schedules.h"

namespace hone::optim {
void validate(const WarmupConfig& config) {
  require(config.ratio <= 0 || config.steps <= 0,
          "`warmup.ratio` and `warmup.steps`: say the same thing in two ways; give one of them");
}

int64_t WarmupConfig::step_count(int64_t total_steps) const {
  if (steps >= 1) return static_cast<int64_t>(steps);
  return static_cast<int64_t>(std::ceil(static_cast<double>(total_steps) * (steps > 0 ? steps : ratio)));
}

const std::vector<std::string>& LrScheduler::names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& entry : schedule_table()) all.push_back(entry.name);
    return all;
  }();
  return names;
}

LrScheduler::LrScheduler(const LrSchedulerConfig& config) : learning_rate_(config.learning_rate) {
  auto entry = std::ranges::find(schedule_table(), config.name, &NamedSchedule::name);
  if (entry == schedule_table().end())
    throw UserError(ExitCode::usage, fmt::format("`lr_scheduler_type` is \"{}\"", config.name),
                    fmt::format("one of {}", fmt::join(names(), ", ")));
  Kwargs arguments("lr_scheduler_kwargs", config.name, config.arguments);
  watches_metric_ = config.name == "reduce_lr_on_plateau";
  if (watches_metric_) {
    plateau_.minimize = arguments.choice("mode", {"min", "max"}) == "min";
    plateau_.relative = arguments.choice("threshold_mode", {"rel", "abs"}) == "rel";
    plateau_.factor = arguments.number("factor", plateau_.factor);
    plateau_.threshold = arguments.number("threshold", plateau_.threshold);
    plateau_.min_rate = arguments.number("min_lr", plateau_.min_rate);
    plateau_.epsilon = arguments.number("eps", plateau_.epsilon);
    plateau_.patience = arguments.whole("patience", 10);
    plateau_.cooldown = arguments.whole("cooldown", 0);
    if (!plateau_.minimize) plateau_.best = -plateau_.best;
  }
  factor_ = entry->make(arguments, config, {static_cast<double>(config.warmup_steps), static_cast<double>(config.total_steps)});
  if (config.name == "constant" || config.name == "constant_with_warmup") return;  // transformers ignores them there
  const bool has_minimum = !arguments.left().empty() && arguments.left().begin().key().starts_with("min_lr");
  arguments.finish(has_minimum ? "`lr_scheduler_type` cosine_with_min_lr takes it" : "");
}

double LrScheduler::learning_rate(int64_t done) const {
  return watches_metric_ ? learning_rate_ : learning_rate_ * factor_(done);
}

bool LrScheduler::Plateau::improved_by(double metric) const {
  const double sign = minimize ? -1.0 : 1.0;
  const double bar = relative ? best * (1.0 + sign * threshold) : best + sign * threshold;
  return minimize ? metric < bar : metric > bar;
}

void LrScheduler::observe(double metric) {
  if (!watches_metric_) return;
  Plateau& p = plateau_;
  if (p.improved_by(metric)) {
    p.best = metric;
    p.bad = 0;
  } else {
    ++p.bad;
  }
  if (p.resting > 0) {
    --p.resting;
    p.bad = 0;
  }
  if (p.bad <= p.patience) return;
  const double reduced = std::max(learning_rate_ * p.factor, p.min_rate);
  if (learning_rate_ - reduced > p.epsilon) learning_rate_ = reduced;
  p.resting = p.cooldown;
  p.bad = 0;
}

Json LrScheduler::state() const {
  if (!watches_metric_) return Json::object();
  Json state = {{"learning_rate", learning_rate_}, {"bad", plateau_.bad}, {"resting", plateau_.resting}};
  if (std::isfinite(plateau_.best)) state["best"] = plateau_.best;
  return state;
}

void LrScheduler::load_state(const Json& state) {
  if (!watches_metric_) return;
  learning_rate_ = state.value("learning_rate", learning_rate_);
  plateau_.best = state.value("best", plateau_.best);
  plateau_.bad = state.value("bad", plateau_.bad);
  plateau_.resting = state.value("resting", plateau_.resting);
}

}  // namespace hone::optim
