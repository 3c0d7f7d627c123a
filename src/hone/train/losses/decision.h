// Decisions: the probability of each option of a question, from the next-token distribution. Cross entropy over the question's
// options, with the additions of ms-swift's losses: a ranked probability score, or a Brier score and label smoothing.
#pragma once
#include "hone/train/methods/loss.h"
#include "hone/train/methods/task.h"

namespace hone::train {

// Offset of a question kind's options in TaskConfig::option_tokens.
int64_t first_option(data::QuestionKind kind);

// The question of each sequence, and the target probability of each option.
struct DecisionPayload : data::PayloadOf<DecisionPayload> {
  struct Question {
    data::QuestionKind kind;
    Tensor shares_o;
  };
  std::vector<Question> questions;

  static data::PayloadCollator collator();
  std::vector<Tensor*> tensors() override;
};

class DecisionLoss final : public LossOf<DecisionPayload> {
 public:
  explicit DecisionLoss(const TaskConfig& config) : config_(config) {}

  double num_items(const data::Batch& batch) const override;
  LossSum loss(const ForwardOutputs& outputs, const DecisionPayload& payload) override;

 private:
  Tensor question_loss(const Tensor& scores_o, const Tensor& wanted_o, bool ordered) const;
  TaskConfig config_;
};

}  // namespace hone::train
