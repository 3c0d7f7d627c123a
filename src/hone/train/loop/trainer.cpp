#include "hone/train/loop/trainer.h"

#include <chrono>
#include <limits>

#include "hone/base/fault_injection.h"
#include "hone/base/log.h"
#include "hone/device/memory.h"
#include "hone/train/loop/parameter_updates.h"
#include "hone/train/loop/stop_signal.h"

namespace hone::train {

Trainer::Trainer(const TrainerConfig& config, const RunFolder& run, TrainerDeps deps)
    : config_(config),
      run_(run),
      deps_(std::move(deps)),
      device_(deps_.model.device()),
      counts_(StepCounts::make(config, deps_.loader.batches_per_epoch())),
      grad_scaler_(config.precision == Precision::float16 && !config.no_master_weights),
      graphs_(deps_.model, deps_.loss,
              config.use_cuda_graphs && !config.layer_sampling && config.profile_modules.empty() ? deps_.trained : TensorList()),
      checkpoint_manager_(config, run, deps_.weights,
                          {.loader = deps_.loader,
                           .optimizer = deps_.optimizer,
                           .lr_scheduler = deps_.lr_scheduler,
                           .masters = deps_.masters,
                           .grad_scaler = grad_scaler_,
                           .strategy = deps_.strategy,
                           .save_group = deps_.save_group,
                           .device = device_,
                           .replicator = deps_.replicator}),
      update_check_(config, grad_scaler_, deps_.row_name),
      stragglers_(deps_.strategy.size()) {
  if (config.profiler) {
    auto settings = *config.profiler;
    if (settings.folder.empty()) settings.folder = run.root / "profiler";
    profiler_.emplace(std::move(settings), deps_.strategy.rank());
  }
  if (!config.profile_modules.empty()) module_profiler_.emplace(deps_.model, config.profile_modules);
  if (config.layer_sampling) layer_sampling_.emplace(deps_.model, *config.layer_sampling, config.seed);
  state_.max_steps = counts_.max_steps;
  if (auto* group = deps_.strategy.loss_group()) deps_.loss.join(*group);
  if (deps_.sequence) deps_.loss.split_sequences(*deps_.sequence);
}

void Trainer::resume(const fs::path& checkpoint) {
  state_ = checkpoint_manager_.restore(checkpoint);
  if (state_.log_window.is_object()) window_.restore(state_.log_window);
  update_check_.restore(state_.recent_losses);
  if (!state_.loss_state.is_null()) deps_.loss.restore(state_.loss_state);
  if (state_.global_step >= counts_.max_steps)
    log::warning("{} is at step {} already and the run ends at {}", checkpoint.string(), state_.global_step, counts_.max_steps);
  state_.max_steps = counts_.max_steps;
  resumed_ = state_;
}

Outcome Trainer::train() {
  bool main = deps_.strategy.rank() == 0;
  RunLog log(config_, run_, device_, state_.global_step, !main);
  std::optional<ProgressBar> bar;
  if (main && config_.progress_bar) bar.emplace("Train", counts_.max_steps, state_.global_step);
  StopSignal signals;
  deps_.model.set_training(true);
  Outcome outcome = Outcome::finished;
  try {
    if (config_.eval_on_start && state_.global_step == 0) evaluate_now(log);
    while (state_.global_step < counts_.max_steps && outcome == Outcome::finished) outcome = run_step(log, bar ? &*bar : nullptr);
  } catch (const StopBetweenSteps&) {
    report_step(log, bar ? &*bar : nullptr);
    outcome = stop_now();
  } catch (const FailedBetweenSteps&) {
    report_step(log, bar ? &*bar : nullptr);
    bar.reset();
    save_before_exit();
    throw;
  }
  bar.reset();
  if (outcome == Outcome::finished || outcome == Outcome::early_stopped) finish(log);
  return outcome;
}

Outcome Trainer::run_step(RunLog& log, ProgressBar* bar) {
  if (profiler_) profiler_->before_step();
  if (layer_sampling_) layer_sampling_->before_step(state_.global_step);
  step(log, bar);
  if (profiler_) profiler_->after_step(state_.global_step);
  if (module_profiler_) module_profiler_->after_step();
  const bool last = state_.global_step >= counts_.max_steps;
  if (pending_->result || last || stop_requested_ || evaluates_now() || saves_now()) report_step(log, bar);
  after_step(log);
  if (stop_requested_) return stop_now();
  if (!stop_early()) return Outcome::finished;
  log::info("{} has not improved in {} evaluations: stopping early", config_.metric_for_best_model,
            state_.evaluations_without_gain);
  return Outcome::early_stopped;
}

void Trainer::save_before_exit() {
  if (state_.global_step > resumed_.global_step) finish_saving();
  wait_for_save();
}

Outcome Trainer::stop_now() {
  save_before_exit();
  return StopSignal::requested() == Stop::interrupt ? Outcome::interrupted : Outcome::preempted;
}

std::vector<data::Batch> Trainer::next_batches() {
  std::vector<data::Batch> batches;
  for (int64_t i = 0, count = counts_.batches_in_update(state_.global_step); i < count; ++i)
    batches.push_back(deps_.sequence ? own_part(deps_.loader.next(), *deps_.sequence) : deps_.loader.next());
  return batches;
}

// The denominator of the loss, over micro-batches and processes, known before the forward pass. All other per-step
// synchronization shares this collective.
Trainer::StepTotals Trainer::all_reduce_counts(const std::vector<data::Batch>& batches) {
  constexpr size_t kCounts = 4;
  std::vector<double> shared(kCounts + static_cast<size_t>(deps_.strategy.size()));
  for (const auto& batch : batches) {
    if (!deps_.strategy.counts_rows()) break;
    shared[0] += deps_.loss.num_items(batch);
    shared[1] += static_cast<double>(batch.tokens_t.size(0));
    shared[2] += static_cast<double>(batch.sample_count);
  }
  shared[3] = checkpoint_manager_.written() ? 1 : 0;
  shared[kCounts + static_cast<size_t>(deps_.strategy.rank())] = computed_;
  auto sums = at::tensor(shared, at::kDouble);
  deps_.strategy.all_reduce(sums);
  const double* values = sums.const_data_ptr<double>();
  if (static_cast<int>(values[3]) == deps_.strategy.size()) wait_for_save();  // in the same step on all processes
  if (auto warning = stragglers_.observe({values + kCounts, values + shared.size()}); warning && deps_.strategy.rank() == 0)
    log::warning("{}", *warning);
  return {std::max(values[0], 1.0), values[1], values[2]};
}

// Returns the loss of a batch; adds its gradients, scaled by `factor`, to the parameters'.
LossSum Trainer::forward_backward(const data::Batch& batch, double factor) {
  const bool inject_nan = fault("train.loss");
  if (!inject_nan)
    if (auto replayed = graphs_.run(batch, factor)) return *replayed;
  auto loss = forward_loss(deps_.model, deps_.loss, batch.to(device_));
  if (inject_nan) loss.sum = loss.sum * std::numeric_limits<double>::quiet_NaN();
  backward_loss(loss, factor);
  return loss;
}

void Trainer::step(RunLog& log, ProgressBar* bar) {
  auto batches = next_batches();
  const int64_t sent_before = deps_.strategy.bytes_sent();
  const auto totals = all_reduce_counts(batches);
  StepMetrics metrics(deps_.loss, deps_.strategy);
  run_micro_batches(batches, totals.num_items, metrics);
  report_step(log, bar);  // the previous step, if not reported yet
  state_.tokens_seen += static_cast<int64_t>(totals.tokens);
  state_.samples_seen += static_cast<int64_t>(totals.samples);
  state_.total_flos = deps_.flops_per_token * static_cast<double>(state_.tokens_seen);
  update(metrics, totals.num_items, std::move(batches));
  sent_ += deps_.strategy.bytes_sent() - sent_before;
  ++state_.global_step;
  state_.epoch = deps_.loader.epoch();
  // A stream ends at different steps on different processes: the first one to finish ends the run for all.
  if (config_.max_epochs && deps_.strategy.sum(state_.epoch >= *config_.max_epochs ? 1 : 0) > 0)
    counts_.max_steps = state_.global_step;
}

double Trainer::loss_factor(double num_items) const {
  if (fault("train.memory")) TORCH_CHECK_WITH(OutOfMemoryError, false, "out of memory, as HONE_FAULT asks");
  const double injected = fault("train.gradient") ? std::numeric_limits<double>::infinity() : 1;
  return injected * grad_scaler_.value() / num_items;
}

// `ends_update`: the last of these passes is the last of the update.
MicroBatchHooks Trainer::micro_batch_hooks(double num_items, bool ends_update) {
  return {.loss_factor = [this, num_items] { return loss_factor(num_items); },
          .before_backward =
              [this, ends_update](bool last) {
                last = last && ends_update;
                deps_.strategy.before_micro_batch(last);
                if (last) deps_.optimizer.before_last_backward(deps_.lr_scheduler.learning_rate(state_.global_step));
              },
          .after_backward =
              [this] {
                deps_.strategy.after_micro_batch();
                deps_.masters.accumulate_master_grads(!deps_.trained.empty() && deps_.optimizer.scales_gradients());
              }};
}

// Passes through the stages of the policy, then through those of a value model that has its own.
void Trainer::run_pipelines(const std::vector<data::Batch>& batches, double num_items, StepMetrics& metrics) {
  auto* value_pipeline = deps_.strategy.value_pipeline();
  run_pipeline_passes(*deps_.strategy.pipeline(), deps_.loss, batches,
                      micro_batch_hooks(num_items, /*ends_update=*/!value_pipeline), metrics);
  if (value_pipeline)
    run_pipeline_passes(*value_pipeline, *deps_.loss.value_loss(), batches, micro_batch_hooks(num_items, /*ends_update=*/true),
                        metrics);
}

// The gradients of all micro-batches, not yet clipped.
void Trainer::run_micro_batches(const std::vector<data::Batch>& batches, double num_items, StepMetrics& metrics) {
  auto began = std::chrono::steady_clock::now();
  double waited = deps_.strategy.seconds_waited();
  if (deps_.strategy.pipeline())
    run_pipelines(batches, num_items, metrics);
  else
    run_passes(
        batches, [this](const data::Batch& batch, double factor) { return forward_backward(batch, factor); },
        micro_batch_hooks(num_items, /*ends_update=*/true), metrics);
  computed_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() -
              (deps_.strategy.seconds_waited() - waited);
  deps_.strategy.finish_gradients();
  grad_scaler_.unscale(deps_.optimizer);
  deps_.optimizer.add_penalty_gradients();
}

// Clips and steps if the numbers are finite.
void Trainer::update(StepMetrics& metrics, double num_items, std::vector<data::Batch> batches) {
  const double learning_rate = deps_.lr_scheduler.learning_rate(state_.global_step);
  auto norm = deps_.strategy.clip_grad_norm(deps_.optimizer, config_.max_grad_norm);
  stop_requested_ = StopSignal::requested() != Stop::none;
  auto& step = pending_.emplace(PendingStep{state_.global_step + 1, learning_rate,
                                            metrics.read(norm, num_items, stop_requested_, deps_.strategy), std::nullopt,
                                            std::move(batches)});
  bool accepted = true;
  if (updates_before_reading()) {
    deps_.optimizer.guard_step(metrics.loss().reshape({}) + norm);
  } else {
    step.result = step.reading.wait();
    step.result->learning_rate = learning_rate;
    stop_requested_ = step.result->stop_requested;
    accepted = accept(*step.result, step.number, step.batches);
  }
  if (accepted) update_weights(deps_.optimizer, deps_.masters, deps_.strategy, learning_rate);
  deps_.optimizer.zero_grad();
}

// Whether to update before the host reads the step's numbers: the device skips non-finite updates, and nothing else rejects one.
bool Trainer::updates_before_reading() const {
  const bool spikes_matter = config_.spike_sigmas > 0 && config_.on_spike != Spike::warn;
  return device_.is_cuda() && deps_.strategy.size() == 1 && !deps_.trained.empty() && deps_.optimizer.scales_gradients() &&
         !grad_scaler_.enabled() && !spikes_matter && !deps_.loader.computes_with_model() && !layer_sampling_ && !profiler_ &&
         !module_profiler_;
}

// Whether to apply the update; if so, the step counts.
bool Trainer::accept(const StepResult& result, int64_t step, const std::vector<data::Batch>& batches) {
  if (!update_check_.accepts(result, step, batches, state_)) return false;
  state_.loss_sum += result.loss;
  ++state_.loss_steps;
  window_.add(result);
  return true;
}

void Trainer::after_step(RunLog& log) {
  if (deps_.after_update) deps_.after_update(state_.global_step);
  if (evaluates_now()) evaluate_now(log);
  if (saves_now()) save_now();
  if (config_.empty_cache_steps && state_.global_step % *config_.empty_cache_steps == 0) device::empty_cache(device_);
}

bool Trainer::evaluates_now() const {
  double passed = config_.eval == IntervalStrategy::epoch ? state_.epoch : static_cast<double>(state_.global_step);
  return passed >= config_.eval_delay && counts_.is_due(config_.eval, config_.eval_steps, state_.global_step);
}

bool Trainer::saves_now() const {
  if (config_.save == IntervalStrategy::best) return state_.best_global_step == state_.global_step;
  return counts_.is_due(config_.save, config_.save_steps, state_.global_step);
}

}  // namespace hone::train
