#include "hone/train/loop/adalora.h"

#include "hone/optim/rank_allocator.h"
#include "hone/tuner/methods/method_config.h"

namespace hone::train {
namespace {

// The values of all ranks, of any number each.
Tensor concatenated(parallel::ProcessGroup& ranks, const Tensor& own) {
  const auto here = static_cast<size_t>(ranks.rank());
  auto counts = at::zeros({ranks.size()}, own.options().dtype(at::kLong));
  counts[static_cast<int64_t>(here)].fill_(own.numel());
  ranks.all_reduce(counts)->wait();
  const auto on_host = counts.cpu();
  const std::vector<int64_t> sizes(on_host.data_ptr<int64_t>(), on_host.data_ptr<int64_t>() + ranks.size());
  auto all = at::zeros({on_host.sum().item<int64_t>()}, own.options());
  all.split_with_sizes(sizes)[here].copy_(own);
  ranks.all_reduce(all)->wait();
  return all;
}

}  // namespace

std::unique_ptr<optim::Optimizer> with_rank_allocation(std::unique_ptr<optim::Optimizer> optimizer, const tuner::Tuned& tuned,
                                                       int64_t steps, parallel::ProcessGroup* stages, at::Device device) {
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
  optim::RankAllocator::Gather gather;
  if (stages) gather = [stages, device](const Tensor& own) { return concatenated(*stages, own.to(device)); };
  return std::make_unique<optim::RankAllocator>(std::move(optimizer), schedule, std::move(gather));
}

}  // namespace hone::train
