// ms-swift's rlhf_type gkd: learning from a teacher's distributions.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/run.h"

namespace hone::cli {

// Throws UserError(usage) for incompatible settings.
void apply_distillation(const Options& options, train::TrainingJob& job);
// The teacher named by the options; neither a folder nor servers if none is named. Throws UserError(usage) for invalid addresses,
// or remote ones without permission.
train::TeacherConfig read_teacher_names(const Options& options);
// Locates its model.
void locate_teacher(const Options& options, train::TeacherConfig& teacher);
// For methods without a teacher.
void refuse_teacher(const Options& options, std::string_view method);

}  // namespace hone::cli
