// Forward and backward passes captured once per batch shape and replayed, if the device supports it: a small model's pass is
// dominated by kernel launches. A replay computes the same numbers in the same order as the captured pass.
#pragma once
#include <memory>
#include <optional>

#include "hone/train/methods/loss.h"

namespace hone::train {

class PassGraphs {
 public:
  // `trained`: the parameters that get gradients; empty if passes must not be captured.
  PassGraphs(model::CausalLM& model, Loss& loss, TensorList trained);
  ~PassGraphs();

  // The loss of a batch; adds its gradients, scaled by `factor`, to the parameters'. Nothing if this batch needs a plain pass.
  std::optional<LossSum> run(const data::Batch& batch, double factor);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hone::train
