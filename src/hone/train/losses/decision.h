// Decisions: which option of a question is right, by what the model would say next. Cross entropy over the question's own
// options, with what ms-swift's losses add: a ranked score of scores, or a Brier score and smoothing.
#pragma once
#include "hone/train/methods/loss.h"
#include "hone/train/methods/task.h"

namespace hone::train {

// Where the options of a kind of question lie among the 24 tokens of TaskConfig::verdicts.
int64_t first_option(int64_t kind);

class DecisionLoss final : public Loss {
 public:
  explicit DecisionLoss(const TaskConfig& config) : config_(config) {}

  double num_items(const data::Batch& batch) const override;
  LossSum loss(model::CausalLM& model, const data::Batch& batch) override;

 private:
  Tensor question_loss(const Tensor& scores_o, const Tensor& wanted_o, bool ordered) const;
  TaskConfig config_;
};

}  // namespace hone::train
