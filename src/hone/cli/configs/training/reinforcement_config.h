// ms-swift's GRPO.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/run.h"

namespace hone::cli {

// The loss of --loss_type. Throws UserError(usage) for other losses.
train::PolicyObjective policy_objective(const Options& options);
// Throws UserError(usage) for incompatible or unsupported settings.
void apply_reinforcement(const Options& options, train::TrainingJob& job);

}  // namespace hone::cli
