// Validates the configuration of a run in terms of its fields. Each function throws ConfigError naming them.
#pragma once
#include "hone/train/run.h"

namespace hone::train {

void validate(const TrainerConfig& config);
void validate(const PreferenceConfig& config);
void validate(const DistillationConfig& config);
void validate(const rl::ReinforcementConfig& config);
// All of these, and rules between parts of a job.
void validate(const TrainingJob& job);

}  // namespace hone::train
