// Attention over a sequence whose positions are on several ranks. The rest of a block works position by position.
#pragma once
#include "hone/ops/attention/attention.h"

namespace hone::model {

class DistributedAttention {
 public:
  virtual ~DistributedAttention() = default;
  // q, k and v of this process's positions, and so the result; `plan` describes the whole row.
  virtual Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const ops::AttentionMetadata& plan,
                        const ops::AttentionShape& shape) = 0;
};

}  // namespace hone::model
