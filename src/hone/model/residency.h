// Lets someone keep a model's weights elsewhere: told which part computes next, it brings them and takes them away again.
#pragma once
#include <cstddef>
#include <vector>

#include "hone/model/layers.h"

namespace hone::model {

// What is fetched together: a block with its adapters, the embedding, the final norm and the head. A tied head is the embedding, so
// that both, and the norm between them, are one part.
struct Part {
  std::vector<NamedParameter> parameters;
};

class Residency {
 public:
  virtual ~Residency() = default;
  virtual void before_forward(size_t part) = 0;
  virtual void after_forward(size_t part) = 0;  // the backward pass may come for it again
  virtual void before_backward(size_t part) = 0;
  virtual void after_backward(size_t part) = 0;  // its gradients are complete
};

}  // namespace hone::model
