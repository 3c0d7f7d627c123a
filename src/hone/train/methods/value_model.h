// The critic of PPO where it is a model of its own: it is tuned as the policy is, trains beside it, and is saved in a folder
// below.
#pragma once
#include "hone/train/loaded_model.h"

namespace hone::train {

inline constexpr const char* kValueModelFolder = "value_model";  // of a checkpoint

// Null where PPO is not what trains, or the policy has the head. `resumed`: the checkpoint that the run continues. Throws
// UserError where the critic cannot read the policy's tokens.
std::unique_ptr<LoadedModel> load_value_model(const TrainingJob& job, const std::optional<fs::path>& resumed,
                                              const text::Tokenizer& tokenizer, const DistributedContext& processes);

// What is beside the critic's weights in its folder.
CheckpointAssets value_model_assets(const TrainingJob& job, const LoadedModel& value_model);
// Both models' files as one: those of the critic in a folder below.
WeightFiles with_value_model(WeightFiles policy, WeightFiles value_model, LoadedModel& loaded, bool main);

// What trains, of both models; the critic's names begin with "value_model.".
std::vector<optim::ParameterGroup> trained_groups(const TrainingJob& job, const LoadedModel& loaded);

}  // namespace hone::train
