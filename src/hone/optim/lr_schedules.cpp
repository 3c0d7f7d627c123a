#include "hone/optim/lr_schedules.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "hone/base/error.h"

namespace hone::optim {
namespace {

double half_cosine(double cycles, double progress) { return 0.5 * (1.0 + std::cos(std::numbers::pi * cycles * 2.0 * progress)); }
double raised(double factor, double floor) { return std::max(0.0, factor * (1 - floor) + floor); }

// min_lr or min_lr_rate, exactly one of them, relative to the peak.
double minimum_share(Kwargs& arguments, const LrSchedulerConfig& config) {
  auto rate = arguments.number("min_lr"), share = arguments.number("min_lr_rate");
  if (rate.has_value() == share.has_value())
    throw UserError(ExitCode::usage,
                    fmt::format("{} needs min_lr or min_lr_rate (one of them) in lr_scheduler_kwargs", config.name),
                    R"(e.g. `lr_scheduler_kwargs` '{"min_lr": 1e-6}')");
  return share ? *share : *rate / config.learning_rate;
}

LrFactor linear(Kwargs&, const LrSchedulerConfig&, ScheduleSteps s) {
  return [s](double step) {
    return step < s.warmup ? s.warming(step) : std::max(0.0, (s.total - step) / std::max(1.0, s.total - s.warmup));
  };
}

LrFactor cosine(Kwargs& a, const LrSchedulerConfig&, ScheduleSteps s) {
  const double cycles = a.number("num_cycles", 0.5);
  return [=](double step) { return step < s.warmup ? s.warming(step) : std::max(0.0, half_cosine(cycles, s.progress(step))); };
}

LrFactor cosine_with_restarts(Kwargs& a, const LrSchedulerConfig&, ScheduleSteps s) {
  const double cycles = a.number("num_cycles", 1);
  return [=](double step) {
    if (step < s.warmup) return s.warming(step);
    if (s.progress(step) >= 1.0) return 0.0;
    return std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * std::fmod(cycles * s.progress(step), 1.0))));
  };
}

LrFactor polynomial(Kwargs& a, const LrSchedulerConfig& config, ScheduleSteps s) {
  const double end = a.number("lr_end", 1e-7), power = a.number("power", 1.0), peak = config.learning_rate;
  if (end >= peak)
    throw UserError(ExitCode::usage, fmt::format("polynomial: lr_end ({}) must be below learning_rate ({})", end, peak));
  return [=](double step) {
    if (step < s.warmup) return s.warming(step);
    if (step > s.total) return end / peak;
    return ((peak - end) * std::pow(1 - (step - s.warmup) / (s.total - s.warmup), power) + end) / peak;
  };
}

LrFactor constant(Kwargs&, const LrSchedulerConfig&, ScheduleSteps) {
  return [](double) { return 1.0; };
}

LrFactor constant_with_warmup(Kwargs&, const LrSchedulerConfig&, ScheduleSteps s) {
  return [s](double step) { return step < s.warmup ? s.warming(step) : 1.0; };
}

LrFactor inverse_sqrt(Kwargs& a, const LrSchedulerConfig&, ScheduleSteps s) {
  const double timescale = a.number("timescale", s.warmup > 0 ? s.warmup : 10'000);
  return
      [=](double step) { return step < s.warmup ? s.warming(step) : 1.0 / std::sqrt((step + timescale - s.warmup) / timescale); };
}

LrFactor cosine_with_min_lr(Kwargs& a, const LrSchedulerConfig& config, ScheduleSteps s) {
  const double cycles = a.number("num_cycles", 0.5), floor = minimum_share(a, config);
  return [=](double step) { return step < s.warmup ? s.warming(step) : raised(half_cosine(cycles, s.progress(step)), floor); };
}

LrFactor cosine_warmup_with_min_lr(Kwargs& a, const LrSchedulerConfig& config, ScheduleSteps s) {
  const double cycles = a.number("num_cycles", 0.5), floor = minimum_share(a, config);
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

LrFactor warmup_stable_decay(Kwargs& a, const LrSchedulerConfig&, ScheduleSteps s) {
  // Without lengths: stable for a third of the steps after warm-up, then decaying, LLaMA-Factory's default.
  auto stable_given = a.number("num_stable_steps"), decay_given = a.number("num_decay_steps");
  const double after = s.total - s.warmup;
  const double stable = stable_given.value_or(decay_given ? after - *decay_given : std::floor(after / 3));
  const double decay = decay_given.value_or(after - stable);
  const std::vector<std::string> shapes = {"linear", "cosine", "1-sqrt"};
  const std::string up = a.choice("warmup_type", shapes), down = a.choice("decay_type", shapes, "cosine");
  const double floor = a.number("min_lr_ratio", 0), cycles = a.number("num_cycles", 0.5);
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
LrFactor megatron(Kwargs& a, const LrSchedulerConfig& config, ScheduleSteps s) {
  const auto share = [&](const char* key) {
    const double rate = a.number(key, 0);
    return config.learning_rate > 0 ? rate / config.learning_rate : 0;
  };
  const double decay = a.number("decay_steps", s.total), first = share("warmup_init"), floor = share("min_lr");
  const auto fraction = a.number("warmup_fraction");
  const double warmup = a.number("warmup_steps", fraction ? *fraction * decay : s.warmup);
  const auto style = a.choice("decay_style", {"cosine", "linear", "constant", "inverse-square-root", "WSD"});
  const double annealed = a.number("wsd_decay_steps", 0);
  const auto shape = a.choice("wsd_decay_style", {"exponential", "linear", "cosine", "minus_sqrt"});
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

}  // namespace

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

}  // namespace hone::optim
