// The settings that determine the order of samples. Every checkpoint stores them, and a run resumes only if they agree.
#pragma once
#include "hone/train/run.h"

namespace hone::train {

// Setting -> value, under the front end's names. `rows`: size of the training set, -1 for a stream.
Json data_order(const TrainingJob& job, int64_t rows);

// Throws UserError(bad_checkpoint) naming every setting in which `now` differs from `checkpoint`: its data position would
// silently refer to other samples. Returns whether the same rows continue in other batches.
bool require_same_order(const fs::path& checkpoint, const Json& now);

}  // namespace hone::train
