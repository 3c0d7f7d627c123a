// The steps of a run, and whether to log, evaluate and save after each.
#pragma once
#include <cstdint>

#include "hone/train/config.h"

namespace hone::train {

// Updates and micro-batches per epoch, and the total number of steps. The last update of an epoch takes the remaining
// micro-batches.
struct StepCounts {
  int64_t max_steps = 0, updates_per_epoch = 0, batches_per_epoch = -1, accumulation = 1;

  // Throws UserError(usage) for a stream without max_steps.
  static StepCounts make(const TrainerConfig& config, int64_t batches_per_epoch);
  int64_t batches_in_update(int64_t step) const;
  bool ends_epoch(int64_t finished_steps) const { return updates_per_epoch > 0 && finished_steps % updates_per_epoch == 0; }
  // Whether something that happens at this interval (steps, or a fraction of all steps) happens after `step`.
  bool is_due(IntervalStrategy every, double interval, int64_t step) const;
};

}  // namespace hone::train
