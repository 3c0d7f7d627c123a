// Ring attention: every rank keeps its queries while keys and values shift around the ring, so no rank holds the full sequence.
// With all-gather context parallelism every rank gathers all keys and values first.
#pragma once
#include <array>

#include "hone/ops/attention/attention.h"
#include "hone/parallel/collectives/process_group.h"

namespace hone::parallel {

struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};
// The positions of a row on one rank of a ring: a chunk from the front and its mirror image from the back, so that all ranks have
// equally many keys to visit (Megatron's zigzag).
std::array<Range, 2> ring_chunks(int64_t positions, int ranks, int rank);

struct RingContext {
  ProcessGroup& ring;
  const ops::CuSeqlens& segments;  // of the full row
  bool gathers = false;            // all-gather of keys and values instead of the ring
};

// q, k, v [own positions, heads * head_dim]. Partial softmax results are merged in float32, step by step.
Tensor ring_attention(const Tensor& q, const Tensor& k, const Tensor& v, const RingContext& row,
                      const ops::AttentionShape& shape);

}  // namespace hone::parallel
