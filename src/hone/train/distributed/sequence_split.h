// The part of a batch that a rank computes under sequence parallelism.
#pragma once
#include "hone/data/batches/batch.h"
#include "hone/parallel/sequence_parallel.h"

namespace hone::train {

// Targets were shifted before, so that any choice of positions keeps them. Segments stay those of the whole row, padded; samples
// count on the first process alone.
data::Batch own_part(const data::Batch& batch, const parallel::SequenceParallel& sequence);

// Of numbers that every position has, [T] or [T, columns], those of this rank's positions; what was padded gets zeros.
Tensor own_rows(const Tensor& rows, const parallel::SequenceParallel& sequence);
// The other way: all of the first `tokens` positions on every rank, with gradients where they are its own.
Tensor whole_rows(const Tensor& own, int64_t tokens, const parallel::SequenceParallel& sequence);

}  // namespace hone::train
