// --accelerator_config: those of Accelerate's settings that change what a run computes, and the names of those that cannot.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/run.h"

namespace hone::cli {

void read_accelerator(const Options& options, train::TrainingJob& job);

}  // namespace hone::cli
