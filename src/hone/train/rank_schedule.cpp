#include "hone/train/rank_schedule.h"

#include "hone/optim/rank_allocation.h"
#include "hone/tuner/methods/own_fields.h"

namespace hone::train {

std::unique_ptr<optim::Optimizer> with_rank_allocation(std::unique_ptr<optim::Optimizer> optimizer, const tuner::Tuned& tuned, int64_t steps) {
  if (!tuned.adapter || tuned.adapter->config.method != "ADALORA") return optimizer;
  const tuner::OwnFields fields(tuned.adapter->config);
  optim::RankSchedule schedule;
  schedule.target_rank = fields.count("target_r", schedule.target_rank);
  schedule.still_at_start = fields.count("tinit", schedule.still_at_start, 0);
  schedule.still_at_end = fields.count("tfinal", schedule.still_at_end, 0);
  schedule.interval = fields.count("deltaT", schedule.interval);
  schedule.sensitivity_decay = fields.read<double>("beta1", schedule.sensitivity_decay);
  schedule.uncertainty_decay = fields.read<double>("beta2", schedule.uncertainty_decay);
  schedule.orthogonality = fields.read<double>("orth_reg_weight", schedule.orthogonality);
  schedule.steps = steps;
  return std::make_unique<optim::RankAllocation>(std::move(optimizer), schedule);
}

}  // namespace hone::train
