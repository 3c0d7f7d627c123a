// Preference training on pairs of completions: DPO and its relatives, CPO, SimPO and ORPO. A batch alternates chosen and
// rejected.
#pragma once
#include "hone/train/losses/pair_losses.h"
#include "hone/train/methods/loss.h"
#include "hone/train/methods/reference.h"

namespace hone::train {

// One model's outputs for the completions of a batch, chosen and rejected alternating.
struct CompletionLogps {
  Tensor sums_s;         // log-probabilities of completions
  Tensor counts_s;       // of tokens
  Tensor own_sums_s;     // the same without the length's weight
  Tensor mean_logits_s;  // summed over a completion's tokens

  PairLogps paired_with(const CompletionLogps& reference, bool means) const;
  // The SFT loss of the chosen completions: a mean over all tokens, or per row.
  Tensor token_loss() const;
  Tensor row_losses() const;
};

struct PreferencePayload : data::PayloadOf<PreferencePayload> {
  CompletionLogps reference;  // zeros where the loss compares with none
};

class PreferenceLoss final : public LossOf<PreferencePayload> {
 public:
  // `reference` may be null if the config needs none.
  PreferenceLoss(const PreferenceConfig& config, Reference* reference, const RouterLossConfig& router, Layout names)
      : config_(config), reference_(reference), router_(router), names_(names) {}

  double num_items(const data::Batch& batch) const override;
  void consult(model::CausalLM& model, const data::Batch& batch, PreferencePayload& payload) override;
  ForwardRequest request(const data::Batch& batch) const override { return {.batch = batch, .router_logits = router_.any()}; }
  LossSum loss(const ForwardOutputs& outputs, const PreferencePayload& payload) override;
  void join(ParallelStrategy& group) override { group_ = &group; }
  void split_sequences(const parallel::SequenceParallel& sequence) override { sequence_ = &sequence; }
  std::vector<std::pair<std::string, std::string>> shown_metrics() const override {
    return {{"accuracy", "rewards/accuracies"}, {"margin", "rewards/margins"}};
  }
  Json state() const override;
  void restore(const Json& state) override;

 private:
  struct Found;  // the sums over a batch
  Found compare(const CompletionLogps& policy, const CompletionLogps& reference, bool training);
  Tensor baseline(const PairLogps& logps, bool training);
  std::vector<Metric> metrics(const CompletionLogps& policy, const Found& found, double pairs) const;
  bool reports_means() const;

  PreferenceConfig config_;
  Reference* reference_;
  RouterLossConfig router_;
  Layout names_;  // whose names metrics have where ms-swift's and LLaMA-Factory's differ
  ParallelStrategy* group_ = nullptr;
  const parallel::SequenceParallel* sequence_ = nullptr;  // null: sequences are whole
  Tensor baseline_;                                       // the mean reward of all batches so far, for BCO
  double baseline_count_ = 0;                             // the number of these batches
};

}  // namespace hone::train
