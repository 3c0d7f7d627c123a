// Decisions: which option of a question is right, by what the model would say next. Cross entropy over the question's own
// options, with what ms-swift's losses add: a ranked score of scores, or a Brier score and smoothing.
#pragma once
#include "hone/train/methods/loss.h"
#include "hone/train/methods/task.h"

namespace hone::train {

// Where the options of a kind of question are among the tokens of TaskConfig::option_tokens.
int64_t first_option(data::QuestionKind kind);

// The question of each sequence, and the share of each of its options.
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
