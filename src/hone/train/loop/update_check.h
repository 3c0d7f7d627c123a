// Decides whether the update of a step is applied: not if its numbers are not finite, nor, by policy, if its loss is a spike.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "hone/data/batches/batch.h"
#include "hone/train/loop/loss_spike_detector.h"
#include "hone/train/loop/precision.h"
#include "hone/train/loop/step_metrics.h"
#include "hone/train/loop/train_state.h"

namespace hone::train {

class UpdateCheck {
 public:
  using RowName = std::function<std::string(int64_t row)>;  // "train.jsonl:12"
  UpdateCheck(const TrainerConfig& config, GradScaler& scaler, RowName row_name)
      : config_(config), scaler_(scaler), row_name_(std::move(row_name)) {}

  // Whether to apply the update. If not, weights and optimizer stay unchanged; data and schedule advance. Counts skipped steps in
  // `state`. Throws UserError(non_finite) where the configured policy ends the run.
  bool accepts(const StepResult& result, int64_t step, const std::vector<data::Batch>& batches, TrainState& state);
  // A run that skipped most of its last steps has broken weights and reports this by its exit code. `steps`: of this process.
  static void refuse_broken_end(const TrainState& state, int64_t steps);

  Json state() const { return spikes_.state(); }
  void restore(const Json& recent_losses) { spikes_.restore(recent_losses); }

 private:
  bool check_loss_spike(double loss, int64_t step, const std::vector<data::Batch>& batches, TrainState& state);

  const TrainerConfig& config_;
  GradScaler& scaler_;
  RowName row_name_;
  LossSpikeDetector spikes_;
};

}  // namespace hone::train
