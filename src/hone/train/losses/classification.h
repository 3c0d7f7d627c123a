// Sequence classification and regression, as transformers' ForSequenceClassification computes them.
#pragma once
#include "hone/train/losses/router_losses.h"
#include "hone/train/methods/task.h"

namespace hone::train {

// Labels: a class index, int64 [S]; or float [S, labels], ones at a text's classes or its values.
struct ClassificationPayload : data::PayloadOf<ClassificationPayload> {
  Tensor targets;

  static data::PayloadCollator collator(const TaskConfig& config);
  std::vector<Tensor*> tensors() override { return {&targets}; }
};

class ClassificationLoss final : public LossOf<ClassificationPayload> {
 public:
  explicit ClassificationLoss(const TaskConfig& config, const RouterLossConfig& router = {}) : config_(config), router_(router) {}

  // The denominator of transformers' mean: texts, or each of their values.
  double num_items(const data::Batch& batch) const override;
  ForwardRequest request(const data::Batch& batch) const override { return {.batch = batch, .router_logits = router_.any()}; }
  LossSum loss(const ForwardOutputs& outputs, const ClassificationPayload& payload) override;

 private:
  LossSum loss_of_labels(const ForwardOutputs& outputs, const ClassificationPayload& payload) const;

  TaskConfig config_;
  RouterLossConfig router_;
};

}  // namespace hone::train
