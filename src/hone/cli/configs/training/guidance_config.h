// ms-swift's GRPO signals besides rewards: a teacher of the policy (OPD-RL, RLSD, SDAR) and expert rows (CHORD).
#pragma once
#include "hone/cli/options.h"
#include "hone/train/run.h"

namespace hone::cli {

// Throws UserError(usage) for incompatible settings, before locating a model.
void read_policy_teacher(const Options& options, train::rl::ReinforcementConfig& config);
void read_demonstrations(const Options& options, train::rl::ReinforcementConfig& config);

}  // namespace hone::cli
