// Completions of a validation set, batch by batch.
#pragma once
#include "hone/data/batches/loader.h"
#include "hone/train/rl/rollout.h"

namespace hone::train::rl {

// Rows of a validation set in order, each sampled `generations` times. The last rollout is padded with the first rows.
// `experience`: PPO's; unset: completions are compared with each other.
std::unique_ptr<data::Loader> evaluation_rollouts(RolloutWorker& worker, std::shared_ptr<const Prompts> prompts,
                                                  int64_t generations, int64_t batch, std::optional<ExperienceState> experience);

}  // namespace hone::train::rl
