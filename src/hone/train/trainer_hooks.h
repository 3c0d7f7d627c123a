// Callbacks of the trainer into the session: names of rows for reports, a benchmark, the reference that follows the
// policy.
#pragma once
#include "hone/train/methods/reference.h"
#include "hone/train/run.h"
#include "hone/train/run_setup.h"

namespace hone::train {

// "train.jsonl:12" for reports about a batch.
std::function<std::string(int64_t)> row_namer(const RunSetup& setup);

// Scores the model at a step; empty if the run has no benchmark. Refers to its arguments.
std::function<Json(int64_t)> benchmark_of(const TrainingJob& job, const RunSetup& setup, model::CausalLM& model);

// Called after each update; empty if the reference does not change.
std::function<void(int64_t)> reference_sync(const TrainingJob& job, Reference* reference, model::CausalLM& model);

}  // namespace hone::train
