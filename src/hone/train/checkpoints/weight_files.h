// Saves trained weights to files and loads them. Weights that are sharded over processes are gathered unit by unit on the first
// one.
#pragma once
#include "hone/train/checkpoints/checkpoint_assets.h"
#include "hone/train/checkpoints/checkpoint_manager.h"
#include "hone/train/loaded_model.h"

namespace hone::train {

WeightFiles weight_files(const TrainingJob& job, const DistributedContext& processes, LoadedModel& loaded,
                         const CheckpointAssets& assets);
// The files of the policy and of a model that trains with it, written as one: the latter's in a folder of its name.
WeightFiles with_second_model(const TrainingJob& job, WeightFiles policy, WeightFiles second_files, LoadedModel& second);

}  // namespace hone::train
