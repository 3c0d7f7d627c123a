// How a training run computes: which operators are fused, 8-bit floats, attention within groups.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/run.h"

namespace hone::cli {

// Throws UserError(usage) for settings that contradict each other or that this model cannot have.
void read_compute(const Options& options, const model::DecoderConfig& config, train::TrainingJob& job);

// What libtorch and the operators keep for the whole process: TF32, and which operators are fused. Set in the process that
// trains.
void set_process_switches(const Options& options);

}  // namespace hone::cli
