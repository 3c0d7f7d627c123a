// Multi-turn rollouts.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/rl/config.h"

namespace hone::cli {

// Call it after sampling and rewards. Throws UserError(usage) for incompatible settings, before a model is loaded.
void read_turns(const Options& options, train::rl::ReinforcementConfig& config);
// For runs without rollouts. Throws UserError(usage) if turns are requested.
void refuse_turns(const Options& options, std::string_view method);

}  // namespace hone::cli
