// The checkpoint files of a session: the weights of all its models that train, and what is stored next to them.
#pragma once
#include "hone/train/checkpoints/checkpoint_assets.h"
#include "hone/train/loaded_model.h"
#include "hone/train/run_setup.h"

namespace hone::train {

CheckpointAssets checkpoint_assets(const TrainingJob& job, const RunSetup& setup, const LoadedModel& loaded);
// The files of all trained models, and of a reference that follows the policy; the assets must outlive the result.
WeightFiles session_weights(const TrainingJob& job, const DistributedContext& processes, const SessionModels& models,
                            const CheckpointAssets& policy_assets, const CheckpointAssets& value_assets);

}  // namespace hone::train
