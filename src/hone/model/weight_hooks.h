// Hooks around each parameter unit: FSDP gathers the weights before use and releases them afterwards.
#pragma once
#include <cstddef>
#include <vector>

#include "hone/model/layers.h"

namespace hone::model {

// What is fetched together: a block with its adapters, the embedding, the final norm and the head. A tied head is the embedding,
// so that both, and the norm between them, are one part.
struct ParameterUnit {
  std::vector<NamedParameter> parameters;
};

class WeightHooks {
 public:
  virtual ~WeightHooks() = default;
  virtual void before_forward(size_t part) = 0;
  virtual void after_forward(size_t part) = 0;  // the backward pass may come for it again
  virtual void before_backward(size_t part) = 0;
  virtual void after_backward(size_t part) = 0;  // its gradients are complete
};

}  // namespace hone::model
