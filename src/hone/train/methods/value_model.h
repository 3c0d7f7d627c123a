// The critic of PPO where it is a model of its own: it is tuned as the policy is, trains beside it, and is saved in a folder
// below.
#pragma once
#include "hone/train/loaded_model.h"

namespace hone::train {

// Adds the model called kValueModel where PPO is what trains and the policy has no head for values. `resumed`: the checkpoint
// that the run continues. Throws UserError where the critic cannot read the policy's tokens.
void load_value_model(const TrainingJob& job, const std::optional<fs::path>& resumed, const text::Tokenizer& tokenizer,
                      const DistributedContext& processes, SessionModels& models);

// What is beside the critic's weights in its folder.
CheckpointAssets value_model_assets(const TrainingJob& job, const LoadedModel& value_model);

}  // namespace hone::train
