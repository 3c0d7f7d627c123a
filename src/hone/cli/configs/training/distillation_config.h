// ms-swift's rlhf_type gkd: learning from a teacher's distributions.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/run.h"

namespace hone::cli {

// Throws UserError(usage) for what does not go together.
void apply_distillation(const Options& options, train::TrainingJob& job);
// The teacher that options name; neither a folder nor servers where they name none. Throws UserError(usage) for addresses that
// are none, or elsewhere without permission.
train::TeacherConfig read_teacher_names(const Options& options);
// Finds the model that it names.
void locate_teacher(const Options& options, train::TeacherConfig& teacher);
// For methods that know no teacher.
void refuse_teacher(const Options& options, std::string_view method);

}  // namespace hone::cli
