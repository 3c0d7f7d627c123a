// From options to a training run: every part of it, in the order in which the parts depend on each other.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/run.h"

namespace hone::cli {

// Throws UserError for options that contradict each other, the model or the data.
train::TrainingJob training_job(const Options& options);

}  // namespace hone::cli
