// How evenly a request's tokens are distributed among a model's experts, in the metrics of the tinker SDK.
#pragma once
#include <map>
#include <string>

#include "hone/device/tensor.h"

namespace hone::tinker {

class ExpertBalance {
 public:
  // Rows [begin, begin + count) of the router's logits [T, experts], of every layer that has experts.
  void add(const TensorList& router_logits, int64_t per_token, int64_t begin, int64_t count);
  // Empty for models without experts.
  std::map<std::string, double> metrics() const;

 private:
  Tensor counts_le_;  // int64 on the model's device: choices of each layer's experts
};

}  // namespace hone::tinker
