// The parallel strategy that the layout of a run's models needs.
#pragma once
#include "hone/train/distributed/parallel_strategy.h"
#include "hone/train/loaded_model.h"

namespace hone::train {

// `working` are the tensors the models compute with, `updated` those the optimizer changes: the same tensors or their master
// weights.
std::unique_ptr<ParallelStrategy> make_strategy(const TrainingJob& job, const DistributedContext& processes,
                                                const SessionModels& models, const std::vector<optim::ParameterGroup>& working,
                                                const std::vector<optim::ParameterGroup>& updated);

}  // namespace hone::train
