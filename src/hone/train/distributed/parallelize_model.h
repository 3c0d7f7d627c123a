// The parallel layout of a run, applied to a model: split sequences, pipeline stages, tensor and expert parallelism, FSDP.
#pragma once
#include "hone/train/loaded_model.h"

namespace hone::train {

// A model that trains. The policy's sequences are split as well, where the run asks for it.
LoadedModel parallelize_model(const TrainingJob& job, const DistributedContext& processes, const char* name,
                              std::shared_ptr<model::CausalLM> model, tuner::Tuned tuned);
// A model that does not train, with the layout of those that do: shards, stages, tensor parallelism.
LoadedModel freeze_model(const TrainingJob& job, const DistributedContext& processes, const char* name,
                         std::unique_ptr<model::CausalLM> model);
// Tells another model that the sequences of its batches are split like those of the policy.
void split_sequences_of(LoadedModel& other, parallel::SequenceParallel& sequence, const DistributedContext& processes);

}  // namespace hone::train
