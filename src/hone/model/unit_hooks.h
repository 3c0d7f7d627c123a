// Calls the weight hooks of a model, if it has any, as a pass moves from unit to unit: in the forward pass directly, in the
// backward pass by autograd hooks on the activations between two units.
#pragma once
#include <optional>

#include "hone/device/tensor.h"
#include "hone/model/weight_hooks.h"

namespace hone::model {

class UnitHooks {
 public:
  explicit UnitHooks(WeightHooks* hooks) : hooks_(hooks) {}

  explicit operator bool() const { return hooks_ != nullptr; }
  void enter(size_t unit) const {
    if (hooks_) hooks_->before_forward(unit);
  }
  void leave(size_t unit) const {
    if (hooks_) hooks_->after_forward(unit);
  }
  // When the gradient of `x` is computed, unit `done` has finished its backward pass and `next` starts it.
  void register_backward_hooks(const Tensor& x, std::optional<size_t> done, std::optional<size_t> next) const {
    // A leaf's gradient may be ready before those of the weights that use it: the input of a pipeline stage does not show it.
    if (!hooks_ || !x.requires_grad() || x.is_leaf()) return;
    x.register_hook([hooks = hooks_, done, next](const Tensor&) {
      if (done) hooks->after_backward(*done);
      if (next) hooks->before_backward(*next);
    });
  }

 private:
  WeightHooks* hooks_;
};

}  // namespace hone::model
