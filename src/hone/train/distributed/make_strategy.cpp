#include "hone/train/distributed/make_strategy.h"

#include <unordered_map>

#include "hone/base/fault_injection.h"
#include "hone/device/tensor_identity.h"
#include "hone/train/distributed/data_parallel.h"
#include "hone/train/distributed/pipeline_parallel.h"
#include "hone/train/distributed/tensor_data_parallel.h"

namespace hone::train {
namespace {

// A model that trains, and its parameters here in the order of the forward pass.
struct UpdatedModel {
  const LoadedModel* loaded;
  std::vector<UpdatedParameter> parameters = {};
};

// `working`: the parameters that models compute with; `updated`: those that the optimizer changes.
std::vector<UpdatedModel> updated_parameters(const SessionModels& models, const std::vector<optim::ParameterGroup>& working,
                                             const std::vector<optim::ParameterGroup>& updated) {
  std::unordered_map<const void*, std::pair<std::string, Tensor>> targets;
  for (size_t g = 0; g < working.size(); ++g)
    for (size_t i = 0; i < working[g].parameters.size(); ++i)
      targets[device::identity_of(working[g].parameters[i])] = {working[g].names[i], updated[g].parameters[i]};
  std::vector<UpdatedModel> list;
  for (const auto* loaded : models.trained()) {
    auto& parameters = list.emplace_back(loaded).parameters;
    auto add = [&](const Tensor& parameter, const Tensor& computed_with) {
      const auto& [name, target] = targets.at(device::identity_of(computed_with));
      parameters.push_back({name, parameter, target});
    };
    for (const auto& [name, parameter] : loaded->trained_here()) {
      if (!loaded->sharded)
        add(parameter, parameter);
      else
        for (const auto* piece : loaded->sharded->shards_of(parameter)) add(parameter, piece->values);
    }
  }
  return list;
}

// Reduces gradients over the processes with the same parameters.
std::unique_ptr<ParallelStrategy> make_copies(const TrainingJob& job, const DistributedContext& processes,
                                              const std::vector<UpdatedModel>& models) {
  const auto& policy = *models.front().loaded;
  if (policy.sharded) {
    std::vector<parallel::ShardedModel*> sharded;
    for (const auto& trained : models) sharded.push_back(trained.loaded->sharded.get());
    auto& shards = processes.shards_optimizer ? *processes.data : *processes.shards;
    return std::make_unique<ShardedDataParallel>(*processes.group, shards, processes.replicas.get(), std::move(sharded));
  }
  DataParallel::Copies layers{policy.tensor || policy.stages ? processes.data.get() : processes.group.get(), {}};
  DataParallel::Copies experts{processes.expert_copies.get(), {}};
  for (const auto& [loaded, parameters] : models)
    for (const auto& [name, parameter, updated] : parameters) {
      const bool on_expert_mesh = loaded->tensor && loaded->tensor->is_on_expert_mesh(parameter);
      (on_expert_mesh ? experts : layers).parameters.push_back({parameter, updated});
    }
  if (fault("expert_parallel.copies")) experts.parameters.clear();
  return std::make_unique<DataParallel>(*processes.group, std::vector<DataParallel::Copies>{layers, experts},
                                        job.parallel.sharding.bucket_bytes);
}

}  // namespace

std::unique_ptr<ParallelStrategy> make_strategy(const TrainingJob& job, const DistributedContext& processes,
                                                const SessionModels& models, const std::vector<optim::ParameterGroup>& working,
                                                const std::vector<optim::ParameterGroup>& updated) {
  if (!processes.group) return std::make_unique<SingleProcess>();
  const auto& policy = models.policy();
  const auto trained = updated_parameters(models, working, updated);
  auto copies = make_copies(job, processes, trained);
  if (policy.tensor) {
    std::vector<TensorDataParallel::Trained> in_shards;
    for (const auto& [loaded, parameters] : trained) in_shards.push_back({*loaded->tensor, parameters});
    copies = std::make_unique<TensorDataParallel>(*processes.group, std::move(copies), std::move(in_shards));
  }
  if (!policy.stages) return copies;
  std::unique_ptr<ParallelStrategy> losses;
  if (processes.last_stages)
    losses = std::make_unique<MultiProcess>(*processes.last_stages);
  else if (policy.stages->is_last())
    losses = std::make_unique<SingleProcess>();
  std::vector<PipelineParallel::Trained> in_stages;
  for (const auto& [loaded, parameters] : trained)
    in_stages.push_back({*loaded->stages, *loaded->schedule, loaded->tensor.get(), parameters});
  return std::make_unique<PipelineParallel>(*processes.group, std::move(copies), std::move(losses), std::move(in_stages));
}

}  // namespace hone::train
