// PPO's critic as a separate model: tuned like the policy, trained together with it, and saved in a subfolder.
#pragma once
#include "hone/train/loaded_model.h"

namespace hone::train {

// Before a model is loaded. Throws UserError if the critic, where there is one, cannot read the policy's tokens.
void probe_value_model(const TrainingJob& job, const text::Tokenizer& tokenizer);

// Adds the model kValueModel if PPO trains and the policy has no value head. `resumed`: the checkpoint of a resumed run.
void load_value_model(const TrainingJob& job, const std::optional<fs::path>& resumed, const DistributedContext& processes,
                      SessionModels& models);

// Files next to the critic's weights.
CheckpointAssets value_model_assets(const TrainingJob& job, const LoadedModel& value_model);

}  // namespace hone::train
