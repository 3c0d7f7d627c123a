// Attention over a row whose positions lie on several processes. The rest of a block works position by position and need not know.
#pragma once
#include "hone/ops/attention.h"

namespace hone::model {

class SplitAttention {
 public:
  virtual ~SplitAttention() = default;
  // q, k and v of this process's positions, and so the result; `plan` describes the whole row.
  virtual Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const ops::AttentionPlan& plan, const ops::AttentionShape& shape) = 0;
};

}  // namespace hone::model
