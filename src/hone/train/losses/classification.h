// Classification and regression of whole texts, as transformers' ForSequenceClassification has them.
#pragma once
#include "hone/train/method.h"
#include "hone/train/task.h"

namespace hone::train {

class ClassificationLoss final : public Method {
 public:
  explicit ClassificationLoss(const TaskConfig& config) : config_(config) {}

  // What transformers' mean is over: texts, or each of their values.
  double count(const data::Batch& batch) const override;
  LossSum loss(model::CausalLM& model, const data::Batch& batch) override;

 private:
  TaskConfig config_;
};

}  // namespace hone::train
