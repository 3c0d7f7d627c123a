// Ring attention: every rank keeps its queries while keys and values shift around the ring, so no rank holds the full sequence.
// All-gather context parallelism is the same with all of them at hand.
#pragma once
#include "hone/ops/attention/attention.h"
#include "hone/parallel/collectives/process_group.h"

namespace hone::parallel {

struct RingContext {
  ProcessGroup& ring;
  const ops::CuSeqlens& segments;  // of the whole row
  Tensor positions;                // which of its positions this process keeps
  bool gathers = false;            // keys and values are gathered in one piece, instead of going round
};

// q, k, v [own positions, heads * head_dim]. Scores in float32, merged step by step with the weights of those before.
Tensor ring_attention(const Tensor& q, const Tensor& k, const Tensor& v, const RingContext& row,
                      const ops::AttentionShape& shape);

}  // namespace hone::parallel
