// The model that a run trains as its folder has it, before anything changes it.
#pragma once
#include "hone/train/run.h"

namespace hone::train {

// How the models of a run are read: those in parts in host memory, out of which each process takes its own.
model::LoadOptions load_options(const TrainingJob& job, const DistributedContext& processes);

// Layers that are sharded or in stages are loaded in host memory, from which each process takes its shard. Of stages a process
// reads its own alone, unless the tuner looks at the others' weights; those it did not read are placeholders.
std::unique_ptr<model::CausalLM> load_model(const TrainingJob& job, const DistributedContext& processes,
                                            const text::Tokenizer& tokenizer);

// Experts of the model, where it has any, take no more rows than this; unset: all.
void limit_experts(model::CausalLM& model, const std::optional<ops::ExpertCapacity>& capacity);

}  // namespace hone::train
