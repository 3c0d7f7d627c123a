// ms-swift's rlhf_type and LLaMA-Factory's stage: preference methods and their reference model.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/run.h"

namespace hone::cli {

// "dpo", "orpo" …: rlhf_type as ms-swift counts them, or the stage; sft and pt too.
std::string training_method(const Options& options);
// Throws UserError(usage) for a method that is not in this version, or a loss that the method does not have.
void check_method(const Options& options);
// All settings of a training run that depend on its preference method; none for sft and pt. Throws UserError(usage) for
// incompatible or unsupported settings.
void apply_preference(const Options& options, train::TrainingJob& job);

// `needed`: the method uses a reference. `method` names it in the error for a reference that is not used.
void read_reference(const Options& options, bool needed, std::string_view method, train::TrainingJob& job);

}  // namespace hone::cli
