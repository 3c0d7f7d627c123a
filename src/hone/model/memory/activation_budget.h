// Selects the part of each block that is recomputed in the backward pass, so that saved activations stay within a budget with the
// least recomputation. The budget is torch's activation_memory_budget: a fraction between saving only the inputs of blocks (0)
// and saving everything (1).
#pragma once
#include <vector>

#include "hone/model/config.h"
#include "hone/model/memory/activation_checkpointing.h"

namespace hone::model {

// The cost per token of a choice for a block.
struct RecomputeCost {
  double kept = 0;      // numbers that wait for the backward pass
  double repeated = 0;  // multiplications that are done again
};
// `row_length`: length of the sequences, since attention costs more the longer they are.
RecomputeCost recompute_cost(const DecoderConfig& config, int64_t layer, Recompute what, int64_t row_length);

// One choice per block. Among blocks of one kind, the first ones are recomputed: when the backward pass reaches them, others have
// freed their activations.
std::vector<Recompute> recompute_within(const DecoderConfig& config, double budget, int64_t row_length);

}  // namespace hone::model
