// Which part of each block runs again in the backward pass, so that what is kept stays within a budget and as little as possible
// is computed twice. The budget is torch's activation_memory_budget: a share of the range between keeping the inputs of blocks
// alone (0) and keeping all (1).
#pragma once
#include <vector>

#include "hone/model/config.h"
#include "hone/model/memory/activation_checkpointing.h"

namespace hone::model {

// What a block costs with a choice, for each token.
struct RecomputeCost {
  double kept = 0;      // numbers that wait for the backward pass
  double repeated = 0;  // multiplications that are done again
};
// `row_length`: of the sequences, whose attention costs more the longer they are.
RecomputeCost recompute_cost(const DecoderConfig& config, int64_t layer, Recompute what, int64_t row_length);

// One choice a block. Among blocks of one kind, the first ones run again: when the backward pass reaches them, others have let go
// of what they kept.
std::vector<Recompute> recompute_within(const DecoderConfig& config, double budget, int64_t row_length);

}  // namespace hone::model
