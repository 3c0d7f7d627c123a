// From options to the settings of the training loop: its length, intervals, output and profiler.
#pragma once
#include "hone/base/file.h"
#include "hone/cli/arguments/output.h"
#include "hone/cli/options.h"
#include "hone/train/config.h"

namespace hone::cli {

// Duration and intervals, which need no model.
train::TrainerConfig trainer_config(const Options& options);
// Whether a training run has something to evaluate on.
bool has_validation_data(const Options& options);
// Where a run writes and what it resumes. `model`: its folder's name is part of the default output folder.
void read_output(const Options& options, const fs::path& model, train::TrainerConfig& config);
void read_profiler(const ProfilerArguments& args, train::TrainerConfig& config);

}  // namespace hone::cli
