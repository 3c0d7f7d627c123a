// Reports between training steps: the progress bar and the log.
#include <cmath>

#include "hone/base/log.h"
#include "hone/device/memory.h"
#include "hone/train/loop/trainer.h"

namespace hone::train {
namespace {

// "accuracy 0.75  margin 0.012  ": the loss's own metrics.
std::string metrics_note(const Loss& loss, const StepResult& result) {
  std::string note;
  for (const auto& [label, name] : loss.shown_metrics())
    if (auto found = result.metrics.find(name); found != result.metrics.end())
      note += fmt::format("{} {:.3f}  ", label, found->second.first / std::max(found->second.second, 1.0));
  return note;
}

}  // namespace

// Reports the last step: in the progress bar, and in the log if due.
void Trainer::report_step(RunLog& log, ProgressBar* bar) {
  if (!pending_) return;
  auto step = std::move(*pending_);
  pending_.reset();
  if (!step.result) {
    step.result = step.reading.wait();
    step.result->learning_rate = step.learning_rate;
    if (!accept(*step.result, step.number, step.batches)) deps_.optimizer.uncount_step();
  }
  if (bar) bar->update(state_.global_step, progress_note(*step.result, log.seconds()));
  if (logs_now()) log_window(log);
}

// Short runs log every step, so that the curve is meaningful.
bool Trainer::logs_now() const {
  constexpr int64_t kShortRun = 100;
  if (config_.logging_first_step && state_.global_step == 1) return true;
  if (config_.logging == IntervalStrategy::epoch) return counts_.is_due(IntervalStrategy::epoch, 0, state_.global_step);
  if (!(config_.logging_steps > 0)) return false;
  const double interval = config_.log_short_runs && counts_.max_steps <= kShortRun ? 1 : config_.logging_steps;
  return counts_.is_due(IntervalStrategy::steps, interval, state_.global_step);
}

void Trainer::log_window(RunLog& log) {
  if (window_.steps() == 0) return;
  auto values = window_.take();
  deps_.loss.add_derived_metrics(values, "");
  if (state_.skipped_steps > 0) values["skipped_steps"] = state_.skipped_steps;
  if (state_.failed_saves > 0) values["failed_saves"] = state_.failed_saves;
  log.record(values, state_);
  if (!module_profiler_) return;
  if (const auto times = module_profiler_->report(); !times.empty()) log::info("{}", times);
}

std::string Trainer::progress_note(const StepResult& result, double seconds) const {
  auto rate = [&](int64_t now, int64_t before) { return static_cast<double>(now - before) / std::max(seconds, 1e-9); };
  // Most important first: a narrow terminal shows as many as fit.
  return fmt::format("loss {:.4f}  {}{} tok/s  {}  lr {:.2e}  grad {:.3f}  {:.1f} samples/s", result.loss,
                     metrics_note(deps_.loss, result), format_count(std::round(rate(state_.tokens_seen, resumed_.tokens_seen))),
                     format_bytes(static_cast<double>(device::memory_use(device_).peak)), result.learning_rate, result.grad_norm,
                     rate(state_.samples_seen, resumed_.samples_seen));
}

}  // namespace hone::train
