// The objective and the optimizer of a run. Every checkpoint stores them, and a run resumes only with the same ones.
#pragma once
#include "hone/train/run.h"

namespace hone::train {

// The method, and for preference and reinforcement methods the losses and their weights, under the names of their options.
Json objective(const TrainingJob& job);

// Throws UserError(bad_checkpoint) if `checkpoint` was trained with another method or loss; another weight is a warning.
void require_same_objective(const fs::path& checkpoint, const Json& now);

// Throws UserError(bad_checkpoint) if `checkpoint` holds the state of an optimizer that the run's cannot continue.
void require_same_optimizer(const fs::path& checkpoint, const TrainingJob& job);

}  // namespace hone::train
