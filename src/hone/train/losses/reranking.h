// Rerankers: how relevant is a candidate to a question? Each pair by itself, or the relevant one among all of a question.
#pragma once
#include "hone/train/methods/loss.h"
#include "hone/train/methods/task.h"

namespace hone::train {

class RerankingLoss final : public Loss {
 public:
  explicit RerankingLoss(const TaskConfig& config) : config_(config) {}

  double num_items(const data::Batch& batch) const override;
  LossSum loss(model::CausalLM& model, const data::Batch& batch) override;

 private:
  bool listwise() const { return config_.loss == "listwise_reranker"; }
  TaskConfig config_;
};

}  // namespace hone::train
