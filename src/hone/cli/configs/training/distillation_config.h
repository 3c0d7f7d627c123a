// ms-swift's rlhf_type gkd: learning from a teacher's distributions.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/run.h"

namespace hone::cli {

// Throws UserError(usage) for what does not go together.
void apply_distillation(const Options& options, train::TrainingJob& job);
// For methods that know no teacher.
void refuse_teacher(const Options& options, std::string_view method);

}  // namespace hone::cli
