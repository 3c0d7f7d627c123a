// Hooks around each unit: FSDP gathers the weights before use and releases them afterwards.
#pragma once
#include <cstddef>

namespace hone::model {

// Units by their indices in CausalLM::units(). The head has no call of its own: it is used together with the final norm, from its
// before_forward until the pass ends.
class WeightHooks {
 public:
  virtual ~WeightHooks() = default;
  virtual void before_forward(size_t unit) = 0;
  virtual void after_forward(size_t unit) = 0;  // the backward pass may come for it again
  virtual void before_backward(size_t unit) = 0;
  virtual void after_backward(size_t unit) = 0;  // its gradients are complete, unless another unit shares its weights
};

}  // namespace hone::model
