// What a run's losses measure. Every checkpoint keeps it, and a run goes on only from one that learnt the same.
#pragma once
#include "hone/train/run.h"

namespace hone::train {

// The method, and of preferences and reinforcement its losses and how strongly they weigh, under the names that users know.
Json objective(const TrainingJob& job);

// Throws UserError(bad_checkpoint) where `checkpoint` was trained by another method or loss; another weight is warned of.
void require_same_objective(const fs::path& checkpoint, const Json& now);

}  // namespace hone::train
