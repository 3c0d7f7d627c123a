// Loads the model of a run, before any changes.
#pragma once
#include "hone/train/run.h"

namespace hone::train {

// How the models of a run are read: partitioned ones in host memory, from which each process takes its part.
model::LoadOptions load_options(const TrainingJob& job, const DistributedContext& processes);

// Models with sharded layers or pipeline stages are loaded in host memory, from which each process takes its shard. A process
// reads only its own stages, unless the tuner needs the others' weights; unread ones are placeholders.
std::unique_ptr<model::CausalLM> load_model(const TrainingJob& job, const DistributedContext& processes,
                                            const text::Tokenizer& tokenizer);

// Limits the capacity of the model's experts, if any; unset: unlimited.
void limit_experts(model::CausalLM& model, const std::optional<ops::ExpertCapacity>& capacity);

}  // namespace hone::train
