// Supervised fine-tuning and continued pre-training: cross-entropy of each labeled token.
#pragma once
#include <memory>
#include <optional>

#include "hone/train/losses/router_losses.h"

namespace hone::train {

struct SftConfig {
  double label_smoothing = 0;
  bool dft = false;  // each token's loss times its own probability, held constant (dynamic fine-tuning)
  std::optional<double>
      eaft;  // each token's loss times (entropy of the 20 most likely / 3) to this power (entropy-adaptive fine-tuning)
  std::optional<double> asft;  // dft, and this weight of the KL divergence from the initial model (anchored fine-tuning)
  RouterLossConfig router;
  bool channel_loss = false;       // logs loss_NAME for each value of the rows' `channel` column
  bool sequence_accuracy = false;  // logs seq_acc, responses that are right from end to end, instead of token_acc
  bool eval_accuracy = false;      // evaluations log LLaMA-Factory's accuracy: each sample's share of correct tokens
};

struct SftPayload : data::PayloadOf<SftPayload> {
  Tensor start_hidden_th;  // asft: the states of the model that the run began with
};

class SftLoss final : public LossOf<SftPayload> {
 public:
  // `start`, which asft needs, is the initial model of the run.
  explicit SftLoss(const SftConfig& config = {}, std::unique_ptr<model::CausalLM> start = nullptr)
      : config_(config), start_(std::move(start)) {}

  double num_items(const data::Batch& batch) const override { return static_cast<double>(batch.target_count); }
  void consult(model::CausalLM& model, const data::Batch& batch, SftPayload& payload) override;
  ForwardRequest request(const data::Batch& batch) const override {
    // Elsewhere the last block is a small share, and recorded launches need shapes that do not depend on labels.
    const bool selects = !sequence_ && batch.targets_t.is_cpu();
    return {.batch = batch, .router_logits = config_.router.any(), .rows_r = selects ? rows_read(batch) : Tensor()};
  }
  LossSum loss(const ForwardOutputs& outputs, const SftPayload& payload) override;
  bool repeats_launches() const override {
    return !config_.dft && !config_.eaft && !config_.asft && !config_.router.any() && !config_.channel_loss &&
           !config_.sequence_accuracy;
  }
  bool metrics_vary() const override { return config_.channel_loss; }
  void split_sequences(const parallel::SequenceParallel& sequence) override { sequence_ = &sequence; }

 private:
  SftConfig config_;
  std::unique_ptr<model::CausalLM> start_;
  const parallel::SequenceParallel* sequence_ = nullptr;  // that splits the sequences of passes; null: nothing does
};

}  // namespace hone::train
