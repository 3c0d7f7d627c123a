// Preference training on pairs of answers: DPO and its relatives, CPO, SimPO and ORPO. A batch holds chosen and rejected side by
// side.
#pragma once
#include "hone/train/losses/pair_losses.h"
#include "hone/train/methods/loss.h"
#include "hone/train/methods/reference.h"

namespace hone::train {

class PreferenceLoss final : public Loss {
 public:
  // `reference` may be null where the config needs none. `router_balance` as SftConfig's.
  PreferenceLoss(const PreferenceConfig& config, Reference* reference, double router_balance, Layout names)
      : config_(config), reference_(reference), router_balance_(router_balance), names_(names) {}

  double num_items(const data::Batch& batch) const override { return static_cast<double>(batch.segments.count() / 2); }
  LossSum loss(model::CausalLM& model, const data::Batch& batch) override;
  void join(ParallelStrategy& group) override { group_ = &group; }
  std::vector<std::pair<std::string, std::string>> shown_metrics() const override {
    return {{"accuracy", "rewards/accuracies"}, {"margin", "rewards/margins"}};
  }
  Json state() const override;
  void restore(const Json& state) override;

 private:
  struct Answers;  // of a batch, as one model sees them
  struct Found;    // what a batch adds up to
  Answers answers(model::CausalLM& model, const data::Batch& batch, std::optional<double> length_weight,
                  TensorList* router_logits);
  Answers reference_answers(model::CausalLM& model, const data::Batch& batch);
  Found compare(const Answers& policy, const Answers& reference, bool training);
  Tensor baseline(const PairLogps& logps, bool training);
  std::vector<Metric> metrics(const Answers& policy, const Found& found, double pairs) const;
  bool reports_means() const;

  PreferenceConfig config_;
  Reference* reference_;
  double router_balance_;
  Layout names_;  // whose names metrics have where ms-swift's and LLaMA-Factory's differ
  ParallelStrategy* group_ = nullptr;
  Tensor baseline_;            // the mean reward of all batches so far, for BCO
  double baseline_count_ = 0;  // of how many
};

}  // namespace hone::train
