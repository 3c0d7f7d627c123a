// Attention over a sequence whose positions are split over ranks. The rest of a block works per position.
#pragma once
#include "hone/ops/attention/attention.h"

namespace hone::model {

class DistributedAttention {
 public:
  virtual ~DistributedAttention() = default;
  // q, k, v and the result are of this process's positions; `metadata` describes the full row.
  virtual Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const ops::AttentionMetadata& metadata,
                        const ops::AttentionShape& shape) = 0;
};

}  // namespace hone::model
