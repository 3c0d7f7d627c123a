// The parallel layout of a run, applied to a model: split sequences, pipeline stages, tensor and expert parallelism, FSDP.
#pragma once
#include "hone/train/loaded_model.h"

namespace hone::train {

// A model that trains. The policy's sequences are split as well, if the run is configured so.
LoadedModel parallelize_model(const TrainingJob& job, const DistributedContext& processes, const char* name,
                              std::shared_ptr<model::CausalLM> model, tuner::Tuned tuned);
// A model that does not train, with the layout of those that do: shards, stages, tensor parallelism.
LoadedModel freeze_model(const TrainingJob& job, const DistributedContext& processes, const char* name,
                         std::unique_ptr<model::CausalLM> model);
// Splits the sequences of another model's batches like those of the policy.
void split_sequences_of(LoadedModel& other, parallel::SequenceParallel& sequence, const DistributedContext& processes);

}  // namespace hone::train
