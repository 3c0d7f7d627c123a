// What decides which samples come in which order. Every checkpoint keeps it, and a run continues only from one that agrees.
#pragma once
#include "hone/train/run.h"

namespace hone::train {

// Setting -> value, under the names that the front end's users know. `rows`: size of the training set, -1 for a stream.
Json data_order(const TrainingJob& job, int64_t rows);

// Throws UserError(bad_checkpoint) that names every setting in which `now` differs from what `checkpoint` was trained with:
// its position in the data would silently mean other samples.
void require_same_order(const fs::path& checkpoint, const Json& now);

}  // namespace hone::train
