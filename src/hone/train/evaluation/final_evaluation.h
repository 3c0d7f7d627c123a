// Evaluation and prediction after training, as LLaMA-Factory reports them, and the result files of a run.
#pragma once
#include "hone/train/loaded_model.h"
#include "hone/train/loop/train_state.h"
#include "hone/train/methods/make_loss.h"
#include "hone/train/reports/run_summary.h"
#include "hone/train/run_folder.h"
#include "hone/train/run_setup.h"

namespace hone::train {

// One process's part of shared data.
struct DataShard {
  int rank = 0, world = 1;
};

std::vector<EvaluationSet> evaluations_of(const TrainingJob& job, const RunSetup& ready, DataShard share);
// Empty if there are no validation rows.
Predict make_predictor(const TrainingJob& job, const RunSetup& ready, model::CausalLM& model, DataShard share);

// LLaMA-Factory's steps after training, or without it: a final evaluation, and generation. Processes that share a model all take
// part; the first one writes. `finished` is null if nothing was trained.
void evaluate_after_training(const TrainingJob& job, const RunSetup& ready, LoadedModel& loaded, const OtherModels& others,
                             const RunResult* finished, bool main);

// Writes SPLIT_results.json, merges it into all_results.json and prints the table.
void write_results(const RunFolder& run, const std::string& split, const Json& metrics);

// LLaMA-Factory: train_results.json, all_results.json, trainer_state.json. ms-swift: `about` and a summary as the last line of
// logging.jsonl.
void write_train_results(const TrainerConfig& config, const RunFolder& run, const TrainState& state, const Json& results,
                         const Json& about);

}  // namespace hone::train
