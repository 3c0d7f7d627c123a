// All-reduce of a tensor parallel block's partial outputs.
#pragma once
#include "hone/device/tensor.h"

namespace hone::model {

class AllReduce {
 public:
  virtual ~AllReduce() = default;
  virtual Tensor all_reduce(const Tensor& partial) = 0;  // the same bits for every slice
};

}  // namespace hone::model
