// ms-swift's grpo beside rewards: a teacher of the policy (OPD-RL, RLSD, SDAR) and an expert's rows (CHORD).
#pragma once
#include "hone/cli/options.h"
#include "hone/train/run.h"

namespace hone::cli {

// Throws UserError(usage) for what does not go together, before a model is looked for.
void read_policy_teacher(const Options& options, train::rl::ReinforcementConfig& config);
void read_demonstrations(const Options& options, train::rl::ReinforcementConfig& config);

}  // namespace hone::cli
