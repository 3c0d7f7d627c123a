// ms-swift's rlhf_type and LLaMA-Factory's stage: how a run learns from preferences.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/run.h"

namespace hone::cli {

// "dpo", "orpo" …: rlhf_type as ms-swift counts them, or the stage; sft and pt too.
std::string training_method(const Options& options);
// Throws UserError(usage) for a method that is not in this version, or a loss that the method has not.
void check_method(const Options& options);
// Everything of a training run that depends on its preference method; nothing for sft and pt. Throws UserError(usage) for what
// does not go together or is not in this version.
void apply_preference(const Options& options, train::TrainingJob& job);

}  // namespace hone::cli
