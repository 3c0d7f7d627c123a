// The result files of a finished run: X_results.json, all_results.json, trainer_state.json, and ms-swift's last log line.
#pragma once
#include "hone/train/loop/train_state.h"
#include "hone/train/run_folder.h"

namespace hone::train {

// Writes SPLIT_results.json, merges it into all_results.json and prints the table.
void write_results(const RunFolder& run, const std::string& split, const Json& metrics);

// LLaMA-Factory: train_results.json, all_results.json, trainer_state.json. ms-swift: `about` and a summary as the last line of
// logging.jsonl.
void write_train_results(const TrainerConfig& config, const RunFolder& run, const TrainState& state, const Json& results,
                         const Json& about);

}  // namespace hone::train
