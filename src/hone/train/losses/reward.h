// Reward models: the better of two completions gets the higher score. Scores are a classifier's only class (ms-swift) or the
// value of a text's last token (LLaMA-Factory).
#pragma once
#include <optional>

#include "hone/train/losses/router_losses.h"

namespace hone::train {

// One score per segment, float32 [S], differentiable, from either head.
Tensor text_scores(model::CausalLM& model, const Tensor& last_token_states_sh);

// -log sigmoid(chosen - rejected - margin) of each pair.
Tensor ranking_losses(const Tensor& chosen_p, const Tensor& rejected_p, const Tensor& margins_p = {});

struct RewardPayload : data::PayloadOf<RewardPayload> {
  Tensor margins_p;  // by how much each chosen completion should be ahead; undefined if no row has one

  static data::PayloadCollator collator();
  std::vector<Tensor*> tensors() override { return {&margins_p}; }
};

class RewardLoss final : public LossOf<RewardPayload> {
 public:
  // `centering`: weight of the squared sum of a pair's scores, which keeps scores near zero.
  explicit RewardLoss(std::optional<double> centering, const RouterLossConfig& router = {})
      : centering_(centering), router_(router) {}

  double num_items(const data::Batch& batch) const override;
  void split_sequences(const parallel::SequenceParallel& sequence) override { sequence_ = &sequence; }
  ForwardRequest request(const data::Batch& batch) const override { return {.batch = batch, .router_logits = router_.any()}; }
  LossSum loss(const ForwardOutputs& outputs, const RewardPayload& payload) override;
  std::vector<std::pair<std::string, std::string>> shown_metrics() const override {
    return {{"accuracy", "rewards/accuracies"}, {"margin", "rewards/margins"}};
  }

 private:
  Tensor scores(const ForwardOutputs& outputs) const;

  std::optional<double> centering_;
  RouterLossConfig router_;
  const parallel::SequenceParallel* sequence_ = nullptr;
};

// generated_predictions.jsonl of such a model: {"chosen": 0.51, "rejected": -0.2} per line, out of LossSum::kept.
void write_pair_scores(const std::string& path, const std::vector<Tensor>& kept);

}  // namespace hone::train
