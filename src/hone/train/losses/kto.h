// Kahneman-Tversky optimization: completions labeled desirable or undesirable, relative to the KL divergence from the reference.
// A batch has the rows' own completions, then mismatched completions of the same prompts (data/encode/kto_rows.h).
#pragma once
#include "hone/train/methods/loss.h"
#include "hone/train/methods/reference.h"

namespace hone::train {

// Log-ratios of the two models per row, float32 [rows], and which completions are desirable (bool).
struct KtoLogRatios {
  Tensor ratios, desirable;
};
// [rows]: 1 - sigmoid of the reward relative to `kl`, a scalar, with the sign of the label. trl's kto and apo_zero_unpaired,
// weighted by label.
Tensor kto_losses(const KtoLogRatios& rows, const Tensor& kl, const PreferenceConfig& config);

// Rows and their KL pairs: S sequences, of which the first are the rows' own completions.
struct KtoPayload : data::PayloadOf<KtoPayload> {
  Tensor desirable;           // bool [rows]
  int64_t num_desirable = 0;  // of them
  int64_t kl_pairs = 0;
  Tensor reference_logps,
      kl_pair_logps = {};  // of completions, [S] and [KL pairs]: by the reference and by the policy before the step

  static data::PayloadCollator collator();
  std::vector<Tensor*> tensors() override { return {&desirable}; }
};

class KtoLoss final : public LossOf<KtoPayload> {
 public:
  KtoLoss(const PreferenceConfig& config, Reference& reference, const RouterLossConfig& router)
      : config_(config), reference_(reference), router_(router) {}

  double num_items(const data::Batch& batch) const override { return static_cast<double>(batch.sample_count); }
  void consult(model::CausalLM& model, const data::Batch& batch, KtoPayload& payload) override;
  ForwardRequest request(const data::Batch& batch) const override;
  LossSum loss(const ForwardOutputs& outputs, const KtoPayload& payload) override;
  void join(ParallelStrategy& group) override { group_ = &group; }
  void split_sequences(const parallel::SequenceParallel& sequence) override { sequence_ = &sequence; }
  void add_derived_metrics(Json& values, const std::string& prefix) const override;

 private:
  Tensor kl_estimate(const Tensor& policy_m, const Tensor& reference_m) const;

  PreferenceConfig config_;
  Reference& reference_;
  RouterLossConfig router_;
  ParallelStrategy* group_ = nullptr;
  const parallel::SequenceParallel* sequence_ = nullptr;
};

}  // namespace hone::train
