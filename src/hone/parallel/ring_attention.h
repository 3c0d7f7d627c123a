// Attention whose keys and values travel round a circle of processes while each keeps its queries: no process ever holds the whole row.
#pragma once
#include "hone/ops/attention.h"
#include "hone/parallel/process_group.h"

namespace hone::parallel {

struct RingRow {
  ProcessGroup& ring;
  const ops::Segments& segments;  // of the whole row
  Tensor positions;               // which of its positions this process keeps
};

// q, k, v [own positions, heads * head_dim]. Scores in float32, merged step by step with the weights of those before.
Tensor ring_attention(const Tensor& q, const Tensor& k, const Tensor& v, const RingRow& row, const ops::AttentionShape& shape);

}  // namespace hone::parallel
