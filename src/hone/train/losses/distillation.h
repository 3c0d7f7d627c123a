// Generalized knowledge distillation as trl and ms-swift compute it: the divergence from a teacher at every labelled position.
#pragma once
#include "hone/train/distillation/teacher.h"
#include "hone/train/methods/loss.h"

namespace hone::train {

struct DistillationPayload : data::PayloadOf<DistillationPayload> {
  bool is_generated = false;      // completions are a model's, not those of a dataset's rows
  std::vector<std::string> tags;  // of each sequence, where several teachers share them out
  TeacherObservation observed;    // before the student's own pass

  static data::PayloadCollator collator(const TeacherConfig& teacher);
};

class DistillationLoss final : public LossOf<DistillationPayload> {
 public:
  DistillationLoss(const DistillationConfig& config, Teacher& teacher) : config_(config), teacher_(teacher) {}

  double num_items(const data::Batch& batch) const override { return static_cast<double>(batch.target_count); }
  void consult(model::CausalLM& model, const data::Batch& batch, DistillationPayload& payload) override;
  LossSum loss(const ForwardOutputs& outputs, const DistillationPayload& payload) override;
  bool metrics_vary() const override { return true; }

 private:
  const DistillationConfig& config_;
  Teacher& teacher_;
};

}  // namespace hone::train
