#include "hone/train/loop/parameter_updates.h"

#include "hone/base/log.h"
#include "hone/train/distributed/matrix_shards.h"
#include "hone/train/loop/adalora.h"

namespace hone::train {

optim::OptimizerConfig optimizer_config(const TrainingJob& job, const DistributedContext& processes) {
  auto config = job.optimizer;
  if (!config.per_parameter) return config;
  const bool scaled = job.trainer.precision == Precision::float16 && !job.trainer.no_master_weights;
  if (processes.world.distributed() || scaled) {
    log::warning("{}: parameters are updated after the backward pass, with the same numbers",
                 processes.world.distributed() ? "several processes add up gradients first" : "float16 scales its losses");
    config.per_parameter = false;
  } else if (job.trainer.max_grad_norm > 0) {
    log::warning("max_grad_norm is ignored: per-parameter updates run before the global gradient norm is known; set it to 0");
  }
  return config;
}

ParameterUpdates make_updates(const TrainingJob& job, optim::OptimizerConfig config, const DistributedContext& processes,
                              const SessionModels& models, int64_t max_steps) {
  ParameterUpdates updates;
  auto groups = trained_groups(job, models);
  updates.working = groups;
  if (!job.trainer.no_master_weights) updates.masters = MasterWeights(groups);
  config.matrices = matrix_shards(models, updates.working);
  updates.in_backward = config.per_parameter;
  updates.optimizer = with_rank_allocation(optim::make_optimizer(config, std::move(groups)), models.policy().tuned, max_steps,
                                           processes.stages.get(), job.load.device);
  updates.masters.let_write(*updates.optimizer);
  return updates;
}

void update_weights(optim::Optimizer& optimizer, MasterWeights& masters, ParallelStrategy& strategy, double learning_rate) {
  optimizer.step(learning_rate);
  masters.after_update();
  strategy.after_update();
}

}  // namespace hone::train
