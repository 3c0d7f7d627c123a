// What a block computes where its heads and its MLP are cut into slices: each slice knows a part, the sum of the parts is the result.
#pragma once
#include "hone/device/tensor.h"

namespace hone::model {

class PartialSums {
 public:
  virtual ~PartialSums() = default;
  virtual Tensor total(const Tensor& partial) = 0;  // the same bits for every slice
};

}  // namespace hone::model
