// Checkpoints between training steps, and the end of a run.
#include <cmath>

#include "hone/base/log.h"
#include "hone/io/newest_checkpoint.h"
#include "hone/train/checkpoints/checkpoint.h"
#include "hone/train/distributed/pipeline_schedule.h"
#include "hone/train/loop/trainer.h"

namespace hone::train {

void Trainer::save_now() {
  if (checkpoint_manager_.newest() == state_.global_step) return;
  wait_for_save();  // one at a time
  state_.log_window = window_.state();
  state_.recent_losses = update_check_.state();
  state_.loss_state = deps_.loss.state();
  if (auto* pipeline = deps_.strategy.pipeline()) state_.loss_state = pipeline->of_last_stage(state_.loss_state);
  checkpoint_manager_.begin(state_);
  if (!config_.async_save) wait_for_save();
}

void Trainer::wait_for_save() {
  if (!checkpoint_manager_.wait(state_)) return;
  if (deps_.after_save && deps_.strategy.rank() == 0)
    deps_.after_save(state_.last_model_checkpoint, checkpoint_manager_.newest());
}

// Saves the last step, again if its save failed, and waits for pending writes.
void Trainer::finish_saving() {
  wait_for_save();
  save_now();
  wait_for_save();
}

void Trainer::finish(RunLog& log) {
  if (config_.logging_steps > 0) log_window(log);  // for a run that stopped early
  if (config_.save != IntervalStrategy::never && config_.save != IntervalStrategy::best) finish_saving();
  wait_for_save();
  double seconds = log.seconds();
  auto rate = [&](int64_t now, int64_t before) { return std::round(static_cast<double>(now - before) / seconds * 1e3) / 1e3; };
  results_ = {{"train_runtime", std::round(seconds * 1e4) / 1e4},
              {"train_samples_per_second", rate(state_.samples_seen, resumed_.samples_seen)},
              {"train_steps_per_second", rate(state_.global_step, resumed_.global_step)},
              {"total_flos", state_.total_flos},
              {"train_loss", state_.loss_sum / static_cast<double>(std::max<int64_t>(state_.loss_steps, 1))}};
  if (config_.report_token_rate) results_["train_tokens_per_second"] = rate(state_.tokens_seen, resumed_.tokens_seen);
  if (config_.report_effective_rate)
    results_["effective_tokens_per_sec"] = rate(state_.tokens_seen, resumed_.tokens_seen) / deps_.strategy.size();
  log.record(results_, state_);
  UpdateCheck::refuse_broken_end(state_, state_.global_step - resumed_.global_step);
  if (int64_t steps = state_.global_step - resumed_.global_step;
      deps_.strategy.size() > 1 && deps_.strategy.rank() == 0 && steps > 0)
    log::info("each process sent {} bytes a step and waited {:.0f} % of the time", sent_ / steps,
              100 * deps_.strategy.seconds_waited() / seconds);
  if (config_.load_best_model_at_end) load_best();
}

void Trainer::load_best() {
  const auto& best = state_.best_model_checkpoint;
  if (best.empty()) {
    log::warning("load_best_model_at_end: no best evaluation has a checkpoint; keeping the weights of the last step");
    return;
  }
  if (io::checkpoint_step(best) != state_.best_global_step)
    log::warning("the best evaluation, at step {}, has no checkpoint: taking the best that has one", *state_.best_global_step);
  log::info("loading the best model: {}", best);
  checkpoint_manager_.load_weights(best);
}

}  // namespace hone::train
