// ms-swift's rlhf_type ppo and LLaMA-Factory's stage ppo.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/run.h"

namespace hone::cli {

// Throws UserError(usage) for incompatible settings.
void apply_ppo(const Options& options, train::TrainingJob& job);
// Whether the critic is a separate model, according to the options.
bool has_own_value_model(const Options& options);

}  // namespace hone::cli
