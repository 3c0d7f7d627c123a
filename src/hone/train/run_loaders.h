// The loaders of a run: rows of its datasets, or rollouts and completions that models generate.
#pragma once
#include "hone/train/run_setup.h"

namespace hone::train {

// The training loader of the method, and the number of steps that follows from it.
void add_loader(const TrainingJob& job, const DistributedContext& processes, RunSetup& ready);

// Distillation: the teacher reads a row's teacher_prompt before a generated completion only, in an unsplit sequence. The check
// throws UserError for other rows that have one. `validates`: for rows of an evaluation, of which it warns.
data::RowCheck row_check(const TrainingJob& job, bool validates = false);

// For rows with KL pairs: partners are rows of the same optimizer step over all `processes`, unless configured otherwise. Throws
// UserError(usage) if an update has only one row.
void set_kl_block(const TrainingJob& job, int processes, data::LoaderConfig& config);

// For a run whose model completes the rows itself: the model, or the engine, must have room for a prompt and one completion
// token.
int64_t longest_useful_prompt(const TrainingJob& job);

}  // namespace hone::train
