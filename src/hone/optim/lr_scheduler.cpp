#include "hone/optim/lr_scheduler.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "hone/base/config_error.h"

namespace hone::optim {
namespace {

using Factor = std::function<double(int64_t)>;

// Takes arguments from lr_scheduler_kwargs; remaining ones are unknown.
class ScheduleArguments {
 public:
  explicit ScheduleArguments(const LrSchedulerConfig& config)
      : config_(config), left_(config.arguments.is_null() ? Json::object() : config.arguments) {
    if (!left_.is_object())
      throw UserError(ExitCode::usage, fmt::format("`lr_scheduler_kwargs` is {}, expected an object", left_.dump()),
                      R"(e.g. '{"min_lr": 1e-6}')");
  }
  std::optional<double> number(const char* key) {
    auto found = left_.find(key);
    if (found == left_.end() || found->is_null()) return left_.erase(key), std::nullopt;
    std::optional<double> value;
    if (found->is_number()) value = found->get<double>();
    if (found->is_string()) value = parse(key, found->get<std::string>());
    if (!value)
      throw UserError(ExitCode::usage, fmt::format("`lr_scheduler_kwargs`: {} is {}, expected a number", key, found->dump()));
    left_.erase(key);
    return value;
  }
  std::string word(const char* key, const char* fallback, const std::vector<std::string>& choices) {
    if (!left_.contains(key)) return fallback;
    const Json value = left_[key];
    left_.erase(key);
    if (value.is_string() && std::ranges::count(choices, value.get<std::string>())) return value.get<std::string>();
    throw UserError(ExitCode::usage, fmt::format("`lr_scheduler_kwargs`: {} is {}, expected one of {}", key, value.dump(),
                                                 fmt::join(choices, ", ")));
  }
  void finish() const {
    if (!left_.empty())
      throw UserError(ExitCode::usage,
                      fmt::format("`lr_scheduler_kwargs`: {} does not know \"{}\"", config_.name, left_.begin().key()),
                      left_.begin().key().starts_with("min_lr") ? "`lr_scheduler_type` cosine_with_min_lr takes it" : "");
  }

 private:
  static double parse(const char* key, const std::string& text) try { return std::stod(text); } catch (const std::exception&) {
    throw UserError(ExitCode::usage, fmt::format("`lr_scheduler_kwargs`: {} is \"{}\", expected a number", key, text));
  }
  const LrSchedulerConfig& config_;
  Json left_;
};

struct Steps {
  double warmup, total;
  double warming(double step) const { return step / std::max(1.0, warmup); }
  double progress(double step) const { return (step - warmup) / std::max(1.0, total - warmup); }
};

double half_cosine(double cycles, double progress) { return 0.5 * (1.0 + std::cos(std::numbers::pi * cycles * 2.0 * progress)); }
double raised(double factor, double floor) { return std::max(0.0, factor * (1 - floor) + floor); }

// min_lr or min_lr_rate, exactly one of them, relative to the peak.
double minimum_share(ScheduleArguments& arguments, const LrSchedulerConfig& config) {
  auto rate = arguments.number("min_lr"), share = arguments.number("min_lr_rate");
  if (rate.has_value() == share.has_value())
    throw UserError(ExitCode::usage,
                    fmt::format("{} needs min_lr or min_lr_rate (one of them) in lr_scheduler_kwargs", config.name),
                    R"(e.g. `lr_scheduler_kwargs` '{"min_lr": 1e-6}')");
  return share ? *share : *rate / config.learning_rate;
}

Factor linear(ScheduleArguments&, const LrSchedulerConfig&, Steps s) {
  return [s](double step) {
    return step < s.warmup ? s.warming(step) : std::max(0.0, (s.total - step) / std::max(1.0, s.total - s.warmup));
  };
}

Factor cosine(ScheduleArguments& a, const LrSchedulerConfig&, Steps s) {
  const double cycles = a.number("num_cycles").value_or(0.5);
  return [=](double step) { return step < s.warmup ? s.warming(step) : std::max(0.0, half_cosine(cycles, s.progress(step))); };
}

Factor cosine_with_restarts(ScheduleArguments& a, const LrSchedulerConfig&, Steps s) {
  const double cycles = a.number("num_cycles").value_or(1);
  return [=](double step) {
    if (step < s.warmup) return s.warming(step);
    if (s.progress(step) >= 1.0) return 0.0;
    return std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * std::fmod(cycles * s.progress(step), 1.0))));
  };
}

Factor polynomial(ScheduleArguments& a, const LrSchedulerConfig& config, Steps s) {
  const double end = a.number("lr_end").value_or(1e-7), power = a.number("power").value_or(1.0), peak = config.learning_rate;
  if (end >= peak)
    throw UserError(ExitCode::usage, fmt::format("polynomial: lr_end ({}) must be below learning_rate ({})", end, peak));
  return [=](double step) {
    if (step < s.warmup) return s.warming(step);
    if (step > s.total) return end / peak;
    return ((peak - end) * std::pow(1 - (step - s.warmup) / (s.total - s.warmup), power) + end) / peak;
  };
}

Factor constant(ScheduleArguments&, const LrSchedulerConfig&, Steps) {
  return [](double) { return 1.0; };
}

Factor constant_with_warmup(ScheduleArguments&, const LrSchedulerConfig&, Steps s) {
  return [s](double step) { return step < s.warmup ? s.warming(step) : 1.0; };
}

Factor inverse_sqrt(ScheduleArguments& a, const LrSchedulerConfig&, Steps s) {
  const double timescale = a.number("timescale").value_or(s.warmup > 0 ? s.warmup : 10'000);
  return
      [=](double step) { return step < s.warmup ? s.warming(step) : 1.0 / std::sqrt((step + timescale - s.warmup) / timescale); };
}

Factor cosine_with_min_lr(ScheduleArguments& a, const LrSchedulerConfig& config, Steps s) {
  const double cycles = a.number("num_cycles").value_or(0.5), floor = minimum_share(a, config);
  return [=](double step) { return step < s.warmup ? s.warming(step) : raised(half_cosine(cycles, s.progress(step)), floor); };
}

Factor cosine_warmup_with_min_lr(ScheduleArguments& a, const LrSchedulerConfig& config, Steps s) {
  const double cycles = a.number("num_cycles").value_or(0.5), floor = minimum_share(a, config);
  const auto start = a.number("warmup_lr_rate");
  return [=](double step) {
    if (step >= s.warmup) return raised(half_cosine(cycles, s.progress(step + 1)), floor);
    return start ? *start + (1.0 - *start) * step / std::max(1.0, s.warmup - 1) : s.warming(step + 1);
  };
}

double ramp_up(const std::string& shape, double progress) {
  if (shape == "linear") return progress;
  return shape == "cosine" ? 0.5 * (1.0 - std::cos(std::numbers::pi * progress)) : 1.0 - std::sqrt(1.0 - progress);
}

double ramp_down(const std::string& shape, double progress, double cycles) {
  if (shape == "linear") return 1.0 - progress;
  return shape == "cosine" ? half_cosine(cycles, progress) : 1.0 - std::sqrt(progress);
}

Factor warmup_stable_decay(ScheduleArguments& a, const LrSchedulerConfig&, Steps s) {
  // Without lengths: stable for a third of the steps after warm-up, then decaying, LLaMA-Factory's default.
  auto stable_given = a.number("num_stable_steps"), decay_given = a.number("num_decay_steps");
  const double after = s.total - s.warmup;
  const double stable = stable_given.value_or(decay_given ? after - *decay_given : std::floor(after / 3));
  const double decay = decay_given.value_or(after - stable);
  const std::vector<std::string> shapes = {"linear", "cosine", "1-sqrt"};
  const std::string up = a.word("warmup_type", "linear", shapes), down = a.word("decay_type", "cosine", shapes);
  const double floor = a.number("min_lr_ratio").value_or(0), cycles = a.number("num_cycles").value_or(0.5);
  return [=](double step) {
    if (step < s.warmup) return raised(ramp_up(up, s.warming(step)), floor);
    if (step < s.warmup + stable) return 1.0;
    if (step >= s.warmup + stable + decay) return floor;
    return raised(ramp_down(down, (step - s.warmup - stable) / std::max(1.0, decay), cycles), floor);
  };
}

double anneal(const std::string& shape, double progress) {
  if (shape == "exponential") return 2 * std::pow(0.5, progress) - 1;
  return shape == "minus_sqrt" ? 1 - std::sqrt(progress) : ramp_down(shape, progress, 0.5);
}

// Megatron-LM's law. Its warm-up need not be a whole number of steps, and the peak is its last step.
Factor megatron(ScheduleArguments& a, const LrSchedulerConfig& config, Steps s) {
  const auto share = [&](const char* key) {
    const double rate = a.number(key).value_or(0);
    return config.learning_rate > 0 ? rate / config.learning_rate : 0;
  };
  const double decay = a.number("decay_steps").value_or(s.total), first = share("warmup_init"), floor = share("min_lr");
  const auto fraction = a.number("warmup_fraction");
  const double warmup = a.number("warmup_steps").value_or(fraction ? *fraction * decay : s.warmup);
  const auto style = a.word("decay_style", "cosine", {"cosine", "linear", "constant", "inverse-square-root", "WSD"});
  const double annealed = a.number("wsd_decay_steps").value_or(0);
  const auto shape = a.word("wsd_decay_style", "exponential", {"exponential", "linear", "cosine", "minus_sqrt"});
  if (warmup >= decay && style != "constant")
    throw UserError(ExitCode::usage, fmt::format("{} steps of warm-up, and the rate falls until step {}", warmup, decay),
                    "shorten the warm-up");
  if (style == "WSD" && !(annealed > 0))
    throw UserError(ExitCode::usage, "the schedule WSD needs the number of steps in which the rate falls",
                    "set lr_wsd_decay_iters, or wsd_decay_steps in `lr_scheduler_kwargs`");
  return [=](double step) {
    if (warmup > 0 && step <= warmup) return first + (1 - first) * step / warmup;
    if (style == "constant") return 1.0;
    if (step > decay) return floor;
    if (style == "inverse-square-root") return std::max(floor, std::sqrt(std::max(warmup, 1.0) / std::max(step, 1.0)));
    const double progress = (step - warmup) / (decay - warmup), steady = decay - annealed;
    if (style == "linear") return floor + (1 - progress) * (1 - floor);
    if (style == "cosine") return floor + half_cosine(0.5, progress) * (1 - floor);
    return step <= steady ? 1.0 : floor + anneal(shape, (step - steady) / annealed) * (1 - floor);
  };
}

struct NamedSchedule {
  std::string name;
  Factor (*make)(ScheduleArguments&, const LrSchedulerConfig&, Steps);
};

const std::vector<NamedSchedule>& schedule_table() {
  static const std::vector<NamedSchedule> schedules = {
      {"linear", linear},
      {"cosine", cosine},
      {"cosine_with_restarts", cosine_with_restarts},
      {"polynomial", polynomial},
      {"constant", constant},
      {"constant_with_warmup", constant_with_warmup},
      {"inverse_sqrt", inverse_sqrt},
      {"reduce_lr_on_plateau", constant},
      {"cosine_with_min_lr", cosine_with_min_lr},
      {"cosine_warmup_with_min_lr", cosine_warmup_with_min_lr},
      {"warmup_stable_decay", warmup_stable_decay},
      {"megatron", megatron},
  };
  return schedules;
}

}  // namespace

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
  ScheduleArguments arguments(config);
  watches_metric_ = config.name == "reduce_lr_on_plateau";
  if (watches_metric_) {
    plateau_.minimize = arguments.word("mode", "min", {"min", "max"}) == "min";
    plateau_.relative = arguments.word("threshold_mode", "rel", {"rel", "abs"}) == "rel";
    plateau_.factor = arguments.number("factor").value_or(plateau_.factor);
    plateau_.threshold = arguments.number("threshold").value_or(plateau_.threshold);
    plateau_.min_rate = arguments.number("min_lr").value_or(plateau_.min_rate);
    plateau_.epsilon = arguments.number("eps").value_or(plateau_.epsilon);
    plateau_.patience = static_cast<int64_t>(arguments.number("patience").value_or(10));
    plateau_.cooldown = static_cast<int64_t>(arguments.number("cooldown").value_or(0));
    if (!plateau_.minimize) plateau_.best = -plateau_.best;
  }
  factor_ = entry->make(arguments, config, {static_cast<double>(config.warmup_steps), static_cast<double>(config.total_steps)});
  if (config.name != "constant" && config.name != "constant_with_warmup") arguments.finish();  // transformers ignores them there
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
