// Generalized knowledge distillation as trl and ms-swift compute it: the divergence from a teacher at every labelled position.
#pragma once
#include "hone/train/distillation/teacher.h"
#include "hone/train/losses/router_losses.h"

namespace hone::train {

struct DistillationPayload : data::PayloadOf<DistillationPayload> {
  bool is_generated = false;      // completions are a model's, not those of a dataset's rows
  std::vector<std::string> tags;  // of each sequence, where several teachers share them out
  // The teacher's input: other prompts before the same completions, which end every sequence. Undefined: the batch itself.
  std::optional<data::Batch> teacher_batch = {};
  std::vector<int64_t> completion_lengths = {};  // of each sequence, in tokens
  TeacherObservation observed;                   // before the student's own pass

  static data::PayloadCollator collator(const TeacherConfig& teacher);
};

class DistillationLoss final : public LossOf<DistillationPayload> {
 public:
  DistillationLoss(const DistillationConfig& config, Teacher& teacher, const RouterLossConfig& router = {})
      : config_(config), teacher_(teacher), router_(router) {}

  double num_items(const data::Batch& batch) const override { return static_cast<double>(batch.target_count); }
  void consult(model::CausalLM& model, const data::Batch& batch, DistillationPayload& payload) override;
  ForwardRequest request(const data::Batch& batch) const override { return {.batch = batch, .router_logits = router_.any()}; }
  LossSum loss(const ForwardOutputs& outputs, const DistillationPayload& payload) override;
  void split_sequences(const parallel::SequenceParallel& sequence) override { sequence_ = &sequence; }
  bool metrics_vary() const override { return true; }

 private:
  const DistillationConfig& config_;
  Teacher& teacher_;
  RouterLossConfig router_;
  const parallel::SequenceParallel* sequence_ = nullptr;  // that splits the sequences of passes; null: nothing does
};

}  // namespace hone::train
