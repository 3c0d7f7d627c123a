#include "hone/train/loop/step_counts.h"

#include <algorithm>
#include <cmath>

#include "hone/base/error.h"

namespace hone::train {

StepCounts StepCounts::make(const TrainerConfig& config, int64_t batches_per_epoch) {
  StepCounts counts{.max_steps = config.max_steps,
                    .batches_per_epoch = batches_per_epoch,
                    .accumulation = std::max<int64_t>(config.gradient_accumulation_steps, 1)};
  if (batches_per_epoch < 0 && config.max_steps <= 0)
    throw UserError(ExitCode::usage, "a streamed dataset has no length, so the number of steps is unknown", "add `max_steps` N");
  if (batches_per_epoch == 0)
    throw UserError(ExitCode::bad_data, "the training dataset has fewer rows than one batch",
                    "check the dataset, or lower the batch size");
  if (batches_per_epoch > 0) counts.updates_per_epoch = (batches_per_epoch + counts.accumulation - 1) / counts.accumulation;
  if (counts.max_steps <= 0 && config.epochs <= 0)
    throw UserError(ExitCode::usage, fmt::format("`num_train_epochs` is {}: nothing would be trained", config.epochs),
                    "set `num_train_epochs` or `max_steps` above 0");
  if (counts.max_steps <= 0)
    counts.max_steps = static_cast<int64_t>(std::ceil(config.epochs * static_cast<double>(counts.updates_per_epoch)));
  return counts;
}

int64_t StepCounts::batches_in_update(int64_t step) const {
  if (updates_per_epoch <= 0) return accumulation;
  return std::min(accumulation, batches_per_epoch - step % updates_per_epoch * accumulation);
}

bool StepCounts::is_due(IntervalStrategy every, double interval, int64_t step) const {
  if (every == IntervalStrategy::never) return false;
  if (step == max_steps) return true;
  if (every == IntervalStrategy::epoch) return ends_epoch(step);
  if (interval > 0 && interval < 1) interval = std::ceil(interval * static_cast<double>(max_steps));
  auto steps = static_cast<int64_t>(interval);
  return steps > 0 && step % steps == 0;
}

}  // namespace hone::train
