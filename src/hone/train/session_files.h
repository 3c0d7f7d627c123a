// The checkpoint files of a session: the weights of all its models that train, and what is stored next to them.
#pragma once
#include "hone/train/checkpoints/checkpoint_assets.h"
#include "hone/train/loaded_model.h"
#include "hone/train/run_setup.h"

namespace hone::train {

struct SessionFiles {
  // `job`, `processes` and `models` must outlive this.
  SessionFiles(const TrainingJob& job, const DistributedContext& processes, const RunSetup& setup, const SessionModels& models);
  SessionFiles(const SessionFiles&) = delete;  // the files refer to the assets

  CheckpointAssets policy_assets, value_assets;
  WeightFiles policy;  // of the policy alone
  WeightFiles all;     // of every model that trains, and of a reference that follows the policy
};

}  // namespace hone::train
