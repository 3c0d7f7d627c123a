// ms-swift's grpo: how a run learns from what its own answers are worth.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/run.h"

namespace hone::cli {

// What --loss_type names. Throws UserError(usage) for what is no loss of grpo.
train::PolicyObjective policy_objective(const Options& options);
// Throws UserError(usage) for what does not go together or is not in this version.
void apply_reinforcement(const Options& options, train::TrainingJob& job);

}  // namespace hone::cli
