// Policy gradient losses on generated completions: GRPO and its variants, as in ms-swift. A batch's segments are completions,
// with the data of rl/batches/policy_batches.h.
#pragma once
#include <optional>

#include "hone/train/losses/router_losses.h"
#include "hone/train/rl/rollout_correction.h"

namespace hone::train {

struct PolicyTokens;

enum class PolicyObjective { grpo, bnpo, dr_grpo, dapo, cispo, sapo, real, fipo };
enum class RatioLevel { token, sequence, sequence_token };

struct PolicyConfig {
  PolicyObjective objective = PolicyObjective::grpo;
  RatioLevel level = RatioLevel::token;
  double temperature = 0.9;                      // of the sampled completions: log-probabilities are of logits divided by it
  double epsilon_low = 0.2, epsilon_high = 0.2;  // cispo: the second is the upper bound of the ratio
  std::optional<double> delta;                   // upper bound of the ratio (two-sided clipping)
  double reference_weight = 0;                   // beta, of the KL divergence from the reference; 0 if it is part of the reward
  double sapo_good = 1.0, sapo_bad = 1.05;       // temperatures of its gates
  double real_temperature = 0.5;
  double fipo_half_life = 32, fipo_clip = 0.2, fipo_safe_ratio = 4;
  bool fipo_clip_above_only = true;
  bool overlong_filter = false;  // masks truncated completions
  double top_entropy = 1;        // only this fraction of the tokens trains, those of highest entropy
  bool report_entropy = false;
  std::optional<double> off_policy_mask_delta;  // off_policy_sequence_mask_delta
  bool weight_demonstrations = false;           // CHORD's phi: p (1 - p) of each token of an expert's row
  double sdar_coef = 0, sdar_gate_beta = 5;     // SDAR: weight of its distillation loss, 0: none; slope of its gate
  RolloutCorrectionConfig correction;           // for log-probabilities of the sampler that differ from the trainer's
  int64_t max_completion_length = 512;
};

// Data of a rollout for the completions of a batch.
struct PolicyPayload : data::PayloadOf<PolicyPayload> {
  Tensor advantages_s, truncated_s;  // float [S]; the second is 1 for truncated completions
  float token_share = 0;             // tokens of the rollout per completion: the denominator of dapo, cispo and fipo
  int64_t group_size = 0;            // completions per prompt
  // float [T]: log-probabilities of each target under the policy and the reference at generation; undefined if not needed.
  Tensor old_logps_t, ref_logps_t;
  Tensor rollout_logps_t;  // the same, by the sampling engine
  Tensor teacher_logps_t;  // the same, by a teacher
  Tensor advantages_t;     // float [T], where tokens of a completion have their own; undefined: advantages_s
  // CHORD: this many sequences after the completions are expert rows, whose share of the loss is mu.
  int64_t demonstrations = 0, demonstrated_targets = 0;
  double mu = 0;

  std::vector<Tensor*> tensors() override {
    return {&advantages_s, &truncated_s, &old_logps_t, &ref_logps_t, &rollout_logps_t, &teacher_logps_t, &advantages_t};
  }
};

class PolicyLoss final : public LossOf<PolicyPayload> {
 public:
  explicit PolicyLoss(const PolicyConfig& config, const RouterLossConfig& router = {}) : config_(config), router_(router) {}

  double num_items(const data::Batch& batch) const override;
  ForwardRequest request(const data::Batch& batch) const override {
    return {.batch = batch, .router_logits = router_.any(), .rows_r = sequence_ ? Tensor() : rows_read(batch)};
  }
  LossSum loss(const ForwardOutputs& outputs, const PolicyPayload& payload) override;
  void join(ParallelStrategy& group) override { group_ = &group; }
  void split_sequences(const parallel::SequenceParallel& sequence) override { sequence_ = &sequence; }
  std::vector<std::pair<std::string, std::string>> shown_metrics() const override { return {{"reward", "reward"}}; }

 private:
  double items_of(const PolicyPayload& payload) const;
  PolicyTokens tokens_of(const ForwardOutputs& outputs, const PolicyPayload& payload, std::vector<Metric>& metrics) const;
  Tensor log_weights(const PolicyTokens& tokens) const;
  Tensor token_losses(const PolicyTokens& tokens, Tensor& ratio, std::vector<Metric>& metrics) const;
  Tensor fipo_influence(const PolicyTokens& tokens, const Tensor& ratio, std::vector<Metric>& metrics) const;
  Tensor group_loss(const PolicyTokens& tokens) const;
  Tensor sdar_loss(const PolicyTokens& tokens, std::vector<Metric>& metrics) const;
  Tensor demonstration_loss(const ForwardOutputs& outputs, const PolicyPayload& payload) const;
  LossSum completion_loss(const ForwardOutputs& outputs, const PolicyPayload& payload) const;
  Tensor summed(const PolicyTokens& tokens, const Tensor& losses_n) const;
  void report_clipping(const PolicyTokens& tokens, const Tensor& ratio, std::vector<Metric>& metrics) const;
  void report_entropies(const PolicyTokens& tokens, const Tensor& entropies_n, std::vector<Metric>& metrics) const;
  // The minimum or maximum over all processes.
  Tensor extreme(const Tensor& value, bool greatest) const;

  PolicyConfig config_;
  RouterLossConfig router_;
  ParallelStrategy* group_ = nullptr;
  const parallel::SequenceParallel* sequence_ = nullptr;
};

// log p(target) at a temperature, float32 [T], zero without a target; with gradients if requested. Every stage of a pipeline gets
// them, without gradients. `sequence`: several processes compute them, each at its own positions.
Tensor policy_logps(model::CausalLM& model, const data::Batch& batch, double temperature,
                    const parallel::SequenceParallel* sequence = nullptr);

}  // namespace hone::train
