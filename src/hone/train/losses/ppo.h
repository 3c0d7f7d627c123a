// Proximal policy optimization as in trl: a clipped policy loss and a clipped value loss. A batch's segments are completions,
// with the data of rl/experience.h for each state.
#pragma once
#include <optional>

#include "hone/train/methods/loss.h"

namespace hone::train {

// float [T] each: for targets, the log-probabilities of policy and reference; for states, the old values, the returns, and the
// advantages.
struct PpoPayload : data::PayloadOf<PpoPayload> {
  Tensor old_logps_t, ref_logps_t;  // the second is undefined where there is no reference
  Tensor values_t, returns_t, advantages_t;
  Tensor is_state_t;      // 1 where a state counts
  float value_share = 1;  // the weight of a state's loss relative to a token's
  float kl_weight = 0;    // of the divergence in the loss; 0 where it went into the rewards
  std::shared_ptr<std::optional<ForwardOutputs>> recorded = {};  // the pass of the first update, run for the rollout; null: none

  std::vector<Tensor*> tensors() override {
    return {&old_logps_t, &ref_logps_t, &values_t, &returns_t, &advantages_t, &is_state_t};
  }
};

struct PpoLossConfig {
  double temperature = 0.9;  // log-probabilities are of logits divided by it
  double cliprange = 0.2, cliprange_value = 0.2, vf_coef = 0.1;
  std::optional<double> ratio_threshold;  // batches whose mean ratio exceeds it are skipped, as in trl 0.9
  bool report_entropy = false;
  bool legacy_names = false;  // metric names of trl 0.9, which LLaMA-Factory uses
};

class PpoLoss final : public LossOf<PpoPayload> {
 public:
  // `value_model` null: the policy has a value head.
  PpoLoss(const PpoLossConfig& config, model::CausalLM* value_model);
  ~PpoLoss() override;

  double num_items(const data::Batch& batch) const override { return static_cast<double>(batch.target_count); }
  ForwardRequest request(const data::Batch& batch) const override;
  // Without the values where the value model's pass is separate.
  LossSum loss(const ForwardOutputs& outputs, const PpoPayload& payload) override;
  Loss* value_loss() override;
  void split_sequences(const parallel::SequenceParallel& sequence) override { sequence_ = &sequence; }
  std::vector<std::pair<std::string, std::string>> shown_metrics() const override { return {{"reward", "reward"}}; }
  void add_derived_metrics(Json& values, const std::string& prefix) const override;

 private:
  struct Policy;
  struct Values;
  class ValueLoss;
  Tensor whole(const Tensor& values_t, const data::Batch& batch) const;
  Policy policy_of(const ForwardOutputs& outputs, const PpoPayload& payload) const;
  Values values_of(const ForwardOutputs& outputs, const PpoPayload& payload) const;
  Tensor value_term(const Values& values) const;  // the value term of the loss
  void report(const Policy& policy, std::vector<Metric>& metrics) const;
  void report(const Values& values, std::vector<Metric>& metrics) const;
  std::string named(const char* name, const char* legacy) const { return config_.legacy_names ? legacy : name; }

  PpoLossConfig config_;
  model::CausalLM* value_model_;
  std::unique_ptr<ValueLoss> value_loss_;  // null: values are a head on the policy
  const parallel::SequenceParallel* sequence_ = nullptr;
};

}  // namespace hone::train
