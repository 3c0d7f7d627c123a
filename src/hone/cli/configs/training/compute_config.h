// How a training run computes: precision, activation checkpointing, fused operators, float8, shifted attention, Accelerate's
// settings.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/run.h"

namespace hone::cli {

// Throws UserError(usage) for contradictory settings or those that this model does not support.
void read_compute(const Options& options, const model::DecoderConfig& config, train::TrainingJob& job);

// Which of the model's `layers` blocks, or which part of each, activation checkpointing recomputes.
void read_recompute(const Options& options, int64_t layers, train::TrainingJob& job);
// The dtypes of weights and arithmetic, given the checkpoint's dtype and what `job` trains.
void read_precision(const Options& options, at::ScalarType stored, train::TrainingJob& job);

// Process-wide settings of libtorch and the operators: TF32, and which operators are fused. Set in the training process.
void set_process_switches(const Options& options);

// --accelerator_config: uses the settings that change what a run computes, and logs the names of those that cannot.
void read_accelerator(const Options& options, train::TrainingJob& job);

}  // namespace hone::cli
