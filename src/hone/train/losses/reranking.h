// Rerankers: the relevance of a candidate to a query, pointwise or listwise.
#pragma once
#include "hone/train/methods/loss.h"
#include "hone/train/methods/task.h"

namespace hone::train {

// Relevance labels. A query is [begin, end) of a relevant candidate and the following ones, up to the next relevant one.
struct RerankingPayload : data::PayloadOf<RerankingPayload> {
  Tensor relevances_s;
  std::vector<std::pair<int64_t, int64_t>> questions;

  static data::PayloadCollator collator();
  std::vector<Tensor*> tensors() override { return {&relevances_s}; }
};

class RerankingLoss final : public LossOf<RerankingPayload> {
 public:
  explicit RerankingLoss(const TaskConfig& config) : config_(config) {}

  double num_items(const data::Batch& batch) const override;
  LossSum loss(const ForwardOutputs& outputs, const RerankingPayload& payload) override;

 private:
  bool listwise() const { return config_.loss == "listwise_reranker"; }
  TaskConfig config_;
};

}  // namespace hone::train
