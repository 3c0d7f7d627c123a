// Generalized knowledge distillation as trl and ms-swift compute it: the divergence from a teacher at every labelled position.
#pragma once
#include "hone/train/distillation/teacher.h"
#include "hone/train/methods/loss.h"

namespace hone::train {

// Sequence label of a generated completion: rows of a dataset have none.
inline constexpr float kGenerated = 1;

class DistillationLoss final : public Loss {
 public:
  DistillationLoss(const DistillationConfig& config, Teacher& teacher) : config_(config), teacher_(teacher) {}

  double num_items(const data::Batch& batch) const override { return static_cast<double>(batch.target_count); }
  LossSum loss(model::CausalLM& model, const data::Batch& batch) override;
  bool metrics_vary() const override { return true; }

 private:
  const DistillationConfig& config_;
  Teacher& teacher_;
};

}  // namespace hone::train
