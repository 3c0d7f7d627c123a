// The part of a batch that a rank computes under sequence parallelism.
#pragma once
#include "hone/data/batches/batch.h"
#include "hone/parallel/sequence_parallel.h"

namespace hone::train {

// Targets were shifted before, so that any choice of positions keeps them. Segments stay those of the full padded row; samples
// count only on the first process. Media stay whole, and their rows on other ranks are -1: every rank encodes them and takes the
// features of its own rows.
data::Batch own_part(const data::Batch& batch, const parallel::SequenceParallel& sequence);

// This rank's positions of per-position values [T] or [T, columns]; padding gets zeros.
Tensor own_rows(const Tensor& rows, const parallel::SequenceParallel& sequence);
// The inverse: all of the first `tokens` positions on every rank, with gradients for its own positions.
Tensor whole_rows(const Tensor& own, int64_t tokens, const parallel::SequenceParallel& sequence);

}  // namespace hone::train
