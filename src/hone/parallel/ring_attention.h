// Ring attention: every rank keeps its queries while keys and values shift around the ring, so no rank holds the full sequence.
// With all-gather context parallelism every rank gathers all keys and values first.
#pragma once
#include "hone/ops/attention/attention.h"
#include "hone/parallel/collectives/process_group.h"

namespace hone::parallel {

struct RingContext {
  ProcessGroup& ring;
  const ops::CuSeqlens& segments;  // of the full sequence
  Tensor positions;                // positions of this rank
  bool gathers = false;            // all-gather of keys and values instead of the ring
};

// q, k, v [own positions, heads * head_dim]. Scores in float32; partial softmax results are merged step by step.
Tensor ring_attention(const Tensor& q, const Tensor& k, const Tensor& v, const RingContext& row,
                      const ops::AttentionShape& shape);

}  // namespace hone::parallel
