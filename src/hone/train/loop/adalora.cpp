#include "hone/train/loop/adalora.h"

#include "hone/optim/rank_allocator.h"
#include "hone/tuner/methods/method_config.h"

namespace hone::train {

std::unique_ptr<optim::Optimizer> with_rank_allocation(std::unique_ptr<optim::Optimizer> optimizer, const tuner::Tuned& tuned,
                                                       int64_t steps) {
  if (!tuned.adapter || tuned.adapter->config.peft_type != "ADALORA") return optimizer;
  const tuner::MethodConfig fields(tuned.adapter->config);
  optim::RankSchedule schedule;
  schedule.target_rank = fields.count("target_r", schedule.target_rank);
  schedule.tinit = fields.count("tinit", schedule.tinit, 0);
  schedule.tfinal = fields.count("tfinal", schedule.tfinal, 0);
  schedule.interval = fields.count("deltaT", schedule.interval);
  schedule.sensitivity_decay = fields.read<double>("beta1", schedule.sensitivity_decay);
  schedule.uncertainty_decay = fields.read<double>("beta2", schedule.uncertainty_decay);
  schedule.orthogonality = fields.read<double>("orth_reg_weight", schedule.orthogonality);
  schedule.steps = steps;
  return std::make_unique<optim::RankAllocator>(std::move(optimizer), schedule);
}

}  // namespace hone::train
