// RAII: the model is in evaluation mode, without dropout and gradients.
#pragma once
#include "hone/device/tensor.h"
#include "hone/model/causal_lm.h"

namespace hone::train {

class EvaluationMode {
 public:
  explicit EvaluationMode(model::CausalLM& model) : model_(model), before_(model.training()) { model_.set_training(false); }
  ~EvaluationMode() { model_.set_training(before_); }
  EvaluationMode(const EvaluationMode&) = delete;

 private:
  model::CausalLM& model_;
  bool before_;
  at::NoGradGuard no_grad_;
};

}  // namespace hone::train
