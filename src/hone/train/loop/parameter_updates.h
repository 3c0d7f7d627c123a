// The optimizer of all models that train, with the float32 copies of half-precision parameters that it updates.
#pragma once
#include "hone/train/distributed/parallel_strategy.h"
#include "hone/train/loaded_model.h"
#include "hone/train/loop/precision.h"

namespace hone::train {

struct ParameterUpdates {
  std::vector<optim::ParameterGroup> working;  // that the models compute with
  MasterWeights masters;
  std::unique_ptr<optim::Optimizer> optimizer;
  bool in_backward = false;  // each parameter is updated in the backward pass
};

// The optimizer of a run. Updates within the backward pass need complete, unscaled gradients; where these are missing, a warning
// says so and parameters are updated after it.
optim::OptimizerConfig optimizer_config(const TrainingJob& job, const DistributedContext& processes);

ParameterUpdates make_updates(const TrainingJob& job, optim::OptimizerConfig config, const DistributedContext& processes,
                              const SessionModels& models, int64_t max_steps);

// Updates the weights, also those of the model that are copies of the optimizer's, and those of other ranks.
void update_weights(optim::Optimizer& optimizer, MasterWeights& masters, ParallelStrategy& strategy, double learning_rate);

}  // namespace hone::train
