// Proximal policy optimization as trl computes it: a clipped loss of the policy and a clipped loss of the values. A batch's
// segments are completions, with what rl/experience.h says of each of their states.
#pragma once
#include <optional>

#include "hone/train/methods/loss.h"

namespace hone::train {

// Channels of Batch::experience_ct.
enum ExperienceChannel : int64_t { kStateAdvantage, kStateReturn, kStateValue, kIsState, kExperienceChannels };
// Sequence labels of a completion: what a state's loss counts for beside a token's, and the weight of the divergence in the loss.
enum PpoField : size_t { kValueShare = 0, kKlWeight = 1 };

struct PpoLossConfig {
  double temperature = 0.9;  // log-probabilities are of logits divided by it
  double cliprange = 0.2, cliprange_value = 0.2, vf_coef = 0.1;
  std::optional<double> ratio_threshold;  // batches whose mean ratio is above it teach nothing, as in trl 0.9
  bool report_entropy = false;
  bool legacy_names = false;  // metrics are called as trl 0.9 calls them, which LLaMA-Factory uses
};

// Values of the given positions, float32 [N], differentiable: of a model of their own, or by the head on the policy's states.
Tensor state_values(model::CausalLM& policy, model::CausalLM* value_model, const Tensor& hidden_th, const data::Batch& batch,
                    const Tensor& positions_n);

class PpoLoss final : public Loss {
 public:
  // `value_model` null: the policy has a value head.
  PpoLoss(const PpoLossConfig& config, model::CausalLM* value_model) : config_(config), value_model_(value_model) {}

  double num_items(const data::Batch& batch) const override { return static_cast<double>(batch.target_count); }
  LossSum loss(model::CausalLM& model, const data::Batch& batch) override;
  std::vector<std::pair<std::string, std::string>> shown_metrics() const override { return {{"reward", "reward"}}; }
  void add_derived_metrics(Json& values, const std::string& prefix) const override;

 private:
  struct Policy;
  struct Values;
  Policy policy_of(model::CausalLM& model, const Tensor& hidden_th, const data::Batch& batch) const;
  Values values_of(model::CausalLM& model, const Tensor& hidden_th, const data::Batch& batch) const;
  void report(const Policy& policy, const Values& values, std::vector<Metric>& metrics) const;
  std::string named(const char* name, const char* legacy) const { return config_.legacy_names ? legacy : name; }

  PpoLossConfig config_;
  model::CausalLM* value_model_;
};

}  // namespace hone::train
