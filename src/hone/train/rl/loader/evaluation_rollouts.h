// Completions of a validation set, batch by batch.
#pragma once
#include <functional>
#include <memory>

#include "hone/data/batches/loader.h"
#include "hone/train/rl/rollout.h"

namespace hone::train::rl {

// Makes the one batch of a rollout.
using MakeEvaluationBatch = std::function<data::Batch(const RolloutBatch& draw, const RolloutShape& shape)>;

// Rows of a validation set in order, each sampled `generations` times. The last rollout is padded with the first rows.
std::unique_ptr<data::Loader> evaluation_rollouts(RolloutWorker& worker, std::shared_ptr<const Prompts> prompts,
                                                  int64_t generations, int64_t batch, MakeEvaluationBatch make);

}  // namespace hone::train::rl
