// Kahneman-Tversky optimization: answers that are good or bad by themselves, weighed against how far the model has moved from its
// reference. A batch holds the rows' own answers, then answers of other rows to the same prompts (data/feedback_rows.h).
#pragma once
#include "hone/train/method.h"
#include "hone/train/reference.h"

namespace hone::train {

// What separates the two models on rows, float32 [rows]: log-probabilities of answers, and which of them are good (bool).
struct FeedbackRatios {
  Tensor ratios, good;
};
// [rows]: 1 - sigmoid of how much better than `moved`, a scalar, a good answer does, or how much worse a bad one. trl's kto and
// apo_zero_unpaired, weighed by whether the answer is good.
Tensor feedback_losses(const FeedbackRatios& rows, const Tensor& moved, const PreferenceConfig& config);

class KtoLoss final : public Method {
 public:
  KtoLoss(const PreferenceConfig& config, Reference& reference, double router_balance) : config_(config), reference_(reference), router_balance_(router_balance) {}

  double count(const data::Batch& batch) const override { return static_cast<double>(batch.sample_count); }
  LossSum loss(model::CausalLM& model, const data::Batch& batch) override;
  void join(Group& group) override { group_ = &group; }
  void derive(Json& values, const std::string& prefix) const override;

 private:
  Tensor moved(const Tensor& policy_m, const Tensor& reference_m) const;

  PreferenceConfig config_;
  Reference& reference_;
  double router_balance_;
  Group* group_ = nullptr;
};

}  // namespace hone::train
