#include "hone/train/distributed/tensor_data_parallel.h"

#include "hone/tuner/trained_files.h"

namespace hone::train {

TensorDataParallel::TensorDataParallel(parallel::ProcessGroup& processes, std::unique_ptr<ParallelStrategy> copies,
                                       std::vector<Trained> models)
    : MultiProcess(processes), copies_(std::move(copies)), models_(std::move(models)) {
  for (const auto& [model, parameters] : models_)
    for (const auto& [name, parameter, updated] : parameters)
      if (!model.owns(parameter)) others_.insert(name);
}

std::vector<parallel::TensorParallelModel::Gradient> TensorDataParallel::Trained::gradients() const {
  std::vector<parallel::TensorParallelModel::Gradient> list;
  for (const auto& [name, parameter, updated] : parameters) list.push_back({parameter, updated.grad()});
  return list;
}

// Over the replicas first, then over the ranks with different parts: either order gives the same sum.
void TensorDataParallel::finish_gradients() {
  copies_->finish_gradients();
  for (const auto& trained : models_) trained.model.sum_partial(trained.gradients());
}

Tensor TensorDataParallel::clip_grad_norm(optim::Optimizer& optimizer, double max_norm) {
  return optimizer.clip_grad_norm(max_norm, [this](Tensor& squared_norm) {
    squared_norm = models_.front().model.squared_norm(models_.front().gradients());
    for (size_t i = 1; i < models_.size(); ++i) squared_norm += models_[i].model.squared_norm(models_[i].gradients());
  });
}

bool TensorDataParallel::owns_state() const {
  return groups().replicas_share_state || groups().is_first_replica ||
         (groups().has_expert_parallelism() && groups().is_first_expert_replica);
}

void TensorDataParallel::keep_gathered(bool hold) {
  copies_->keep_gathered(hold);
  models_.front().model.keep_gathered(hold);
}

void TensorDataParallel::keep_for_generation(bool hold) {
  copies_->keep_gathered(hold);
  models_.front().model.keep_for_generation(hold);
}

// "exp_avg/name", or the name of a master weight.
bool TensorDataParallel::owns_state_of(const std::string& name) const {
  const auto slash = name.find('/');
  return !others_.contains(slash == std::string::npos ? name : name.substr(slash + 1));
}

void name_parts(std::vector<optim::ParameterGroup>& groups, const parallel::TensorParallelModel& model) {
  for (auto& group : groups)
    for (size_t i = 0; i < group.parameters.size(); ++i)
      if (const auto* shard = model.shard_of(group.parameters[i])) {
        group.names[i] += fmt::format("@{}:{}:{}", shard->begin, shard->run, shard->stride);
        if (shard->count > 0) group.names[i] += fmt::format(":{}:{}", shard->count, shard->jump);
      }
}

WeightFiles tensor_parallel_files(model::CausalLM& model, const tuner::Tuned& tuned, parallel::TensorParallelModel& parts,
                                  const CheckpointAssets& assets, size_t max_shard_bytes, bool main) {
  auto reader = std::make_shared<tuner::ReadWeight>();
  WeightFiles files;
  files.save = [&model, &tuned, max_shard_bytes, reader](const fs::path& folder) {
    tuner::save_trained(model, tuned, folder, max_shard_bytes, *reader);
  };
  files.load = [&](const fs::path& folder) {
    parallel::UnshardedShapes shapes(parts);
    tuner::load_trained(model, tuned, folder,
                        [&](const Tensor& parameter, const Tensor& values) { parts.fill(parameter, values); });
  };
  files.save_assets = [&assets](const fs::path& folder) { assets.write(folder); };
  files.read = [reader](const Tensor& parameter) { return (*reader)(parameter); };
  files.gather = [&, reader, main](const std::function<void()>& write) {
    if (tuned.adapter) {  // small: every rank temporarily has all of it
      parallel::UnshardedShapes shapes(parts);
      for (const auto& [name, tensor] : tuned.trainable) shapes.show(tensor);
      if (main) write();
      return;
    }
    const parallel::UnshardedParameters whole(parts);
    if (!main) return whole.follow();
    *reader = [&whole](const Tensor& parameter) { return whole(parameter); };
    write();
    *reader = {};
  };
  return files;
}

}  // namespace hone::train
