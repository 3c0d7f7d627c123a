// Sequence classification and regression, as transformers' ForSequenceClassification computes them.
#pragma once
#include "hone/train/methods/loss.h"
#include "hone/train/methods/task.h"

namespace hone::train {

class ClassificationLoss final : public Loss {
 public:
  explicit ClassificationLoss(const TaskConfig& config) : config_(config) {}

  // What transformers' mean is over: texts, or each of their values.
  double num_items(const data::Batch& batch) const override;
  LossSum loss(model::CausalLM& model, const data::Batch& batch) override;

 private:
  TaskConfig config_;
};

}  // namespace hone::train
