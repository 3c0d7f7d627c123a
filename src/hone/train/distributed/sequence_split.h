// The part of a batch that a rank computes under sequence parallelism.
#pragma once
#include "hone/data/batches/batch.h"
#include "hone/parallel/sequence_parallel.h"

namespace hone::train {

// Targets were shifted before, so that any choice of positions keeps them. Segments stay those of the whole row, padded; samples
// count on the first process alone.
data::Batch own_part(const data::Batch& batch, const parallel::SequenceParallel& sequence);

}  // namespace hone::train
