// What a run's loss measures. Every checkpoint keeps it, and a run resumes only from one with the same objective.
#pragma once
#include "hone/train/run.h"

namespace hone::train {

// The method, and of preferences and reinforcement its losses and how strongly they weigh, under the names that users know.
Json objective(const TrainingJob& job);

// Throws UserError(bad_checkpoint) where `checkpoint` was trained by another method or loss; another weight is warned of.
void require_same_objective(const fs::path& checkpoint, const Json& now);

}  // namespace hone::train
