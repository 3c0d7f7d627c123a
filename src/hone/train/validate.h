// The rules of what can be set about a run, in terms of the configs' fields. Each throws ConfigError, which names them.
#pragma once
#include "hone/train/run.h"

namespace hone::train {

void validate(const TrainerConfig& config);
void validate(const PreferenceConfig& config);
void validate(const DistillationConfig& config);
void validate(const rl::ReinforcementConfig& config);
// All of these, and what parts of a job say of each other.
void validate(const TrainingJob& job);

}  // namespace hone::train
