// Forward and backward passes captured once per shape of batch and replayed, where the device can: a small model's pass is mostly
// the launching of kernels. A replay computes the same numbers in the same order as the pass it was captured from.
#pragma once
#include <memory>
#include <optional>

#include "hone/train/methods/loss.h"

namespace hone::train {

class PassGraphs {
 public:
  // `trained`: what the backward pass gives gradients of; empty where passes must not be captured.
  PassGraphs(model::CausalLM& model, Loss& method, TensorList trained);
  ~PassGraphs();

  // The loss of a batch, whose gradients, times `factor`, are added to the parameters'. Nothing where this batch must be computed
  // the plain way.
  std::optional<LossSum> run(const data::Batch& batch, double factor);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hone::train
