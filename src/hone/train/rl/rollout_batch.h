// A rollout: completions with their rewards, and how they are split into batches.
#pragma once
#include <vector>

#include "hone/data/batches/batch.h"
#include "hone/train/distributed/parallel_strategy.h"
#include "hone/train/rl/advantages.h"
#include "hone/train/rl/rollout_sample.h"

namespace hone::train::rl {

// This process's part of a rollout, and the rewards of all of it.
struct RolloutBatch {
  std::vector<RolloutSample> own;
  RewardTable rewards;  // of all processes' completions, in order
};

// How a rollout is split into batches.
struct RolloutShape {
  int64_t generations = 8, micro_batch = 1, steps = 1;
  double updates_share = 1;  // share of the rollout's tokens per batch, over all processes
};

// Tokens and targets of this process's completions, `batch_size` of them a batch.
std::vector<data::Batch> collate_completions(const RolloutBatch& draw, int64_t batch_size);

// One process's rows of a table.
template <class Rows>
Rows own_part(const Rows& all, const ParallelStrategy& group) {
  auto size = all.size() / static_cast<size_t>(group.size());
  auto begin = all.begin() + static_cast<ptrdiff_t>(size * static_cast<size_t>(group.rank()));
  return Rows(begin, begin + static_cast<ptrdiff_t>(size));
}

}  // namespace hone::train::rl
