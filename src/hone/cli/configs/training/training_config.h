// From options to a training run. The only code that reads options of the training loop.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/run.h"

namespace hone::cli {

// Settings about duration and intervals, which need no model.
train::TrainerConfig trainer_config(const Options& options);
train::TrainingJob training_job(const Options& options);
// The dtypes of weights and arithmetic, given the checkpoint's dtype and what `job` trains.
void read_precision(const Options& options, at::ScalarType stored, train::TrainingJob& job);

}  // namespace hone::cli
