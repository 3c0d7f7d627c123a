// ms-swift's checkpoint-N-merged next to an adapter's checkpoint-N: the full model, for programs that load no adapters.
#pragma once
#include "hone/train/run.h"

namespace hone::train {

// On the process that wrote `checkpoint`. If it fails, the adapter is still there: the reason is logged, and the run continues.
void write_merged_checkpoint(const TrainingJob& job, const text::Tokenizer& tokenizer, const fs::path& checkpoint);

}  // namespace hone::train
