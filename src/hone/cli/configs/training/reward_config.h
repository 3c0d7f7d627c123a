// What reward models (rlhf_type and stage rm) and answers that are good or bad (kto) ask of a training run.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/run.h"

namespace hone::cli {

void read_reward(const Options& options, train::TrainingJob& job);
// Throws UserError(usage) for a loss that is none of KTO's, and for a stream.
void read_feedback(const Options& options, train::TrainingJob& job);

}  // namespace hone::cli
