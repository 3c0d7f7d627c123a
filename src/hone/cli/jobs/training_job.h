// From options to a training run. The only code that reads options of the training loop.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/run.h"

namespace hone::cli {

train::TrainingJob training_job(const Options& options);

}  // namespace hone::cli
