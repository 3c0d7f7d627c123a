#include "hone/train/loaded_model.h"

#include <algorithm>

#include "hone/base/error.h"
#include "hone/model/decoder.h"

namespace hone::train {

std::vector<std::pair<std::string, Tensor>> LoadedModel::trained_here() const {
  auto trainable = tuned.trainable;
  if (stages) std::erase_if(trainable, [&](const auto& named) { return !stages->holds(named.second); });
  // A bias that only one rank adds is known to the others.
  if (sharded) std::erase_if(trainable, [&](const auto& named) { return !sharded->holds(named.second); });
  return trainable;
}

double LoadedModel::flops_per_token() const {
  double weights = 0;
  for (const auto& parameter : model->parameters()) {
    if (parameter.value == &model->embedding().weight) continue;
    const auto* shard = tensor ? tensor->shard_of(*parameter.value) : nullptr;
    weights += static_cast<double>(shard ? c10::multiply_integers(shard->full_shape) : parameter.value->numel());
  }
  return 6 * weights;
}

void LoadedModel::run_frozen(const std::function<void(model::CausalLM&)>& work) {
  at::NoGradGuard no_grad;
  if (sharded) sharded->begin_backward(/*last_of_update=*/true);
  work(*model);
  if (sharded) sharded->end_backward();  // nothing trains here: releases the gathered weights
}

void LoadedModel::keep_gathered(bool hold) {
  if (sharded) sharded->keep_gathered(hold);
  if (tensor && hold) tensor->keep_gathered(true);  // gathers the layers of a stage first, then the stages
  if (stages) stages->keep_gathered(hold);
  if (tensor && !hold) tensor->keep_gathered(false);
}

SessionModels::~SessionModels() {
  const auto* policy = find(kPolicy);
  for (const auto& loaded : models_)
    if (auto& attention = loaded->model->decoder().distributed_attention; policy && attention == policy->sequence.get())
      attention = nullptr;
}

LoadedModel& SessionModels::add(LoadedModel model) {
  HONE_CHECK(!find(model.name), "two models are called {}", model.name);
  return *models_.emplace_back(std::make_unique<LoadedModel>(std::move(model)));
}

LoadedModel* SessionModels::find(std::string_view name) const {
  const auto found = std::ranges::find_if(models_, [&](const auto& model) { return model->name == name; });
  return found == models_.end() ? nullptr : found->get();
}

LoadedModel& SessionModels::policy() const {
  auto* found = find(kPolicy);
  HONE_CHECK(found, "a run without a policy");
  return *found;
}

std::vector<LoadedModel*> SessionModels::trained() const {
  std::vector<LoadedModel*> list{&policy()};
  for (const auto& model : models_)
    if (model->trains() && model.get() != list.front()) list.push_back(model.get());
  return list;
}

std::vector<optim::ParameterGroup> trained_groups(const TrainingJob& job, const SessionModels& models) {
  std::vector<optim::ParameterGroup> all;
  for (const auto* loaded : models.trained()) {
    auto trainable = loaded->trained_here();
    if (loaded->name != kPolicy)
      for (auto& [name, tensor] : trainable) name = fmt::format("{}.{}", loaded->name, name);
    auto groups = optim::make_param_groups(trainable, job.groups);
    if (loaded->tensor) name_parts(groups, *loaded->tensor);
    for (auto& group : loaded->sharded ? shard_param_groups(groups, *loaded->sharded) : groups) all.push_back(std::move(group));
  }
  return all;
}

TensorList trained_tensors(const SessionModels& models) {
  TensorList tensors;
  for (const auto* loaded : models.trained())
    for (const auto& [name, tensor] : loaded->trained_here()) tensors.push_back(tensor);
  return tensors;
}

void switch_off_dropout(model::CausalLM& model) {
  for (const auto& slot : model.tree().slots())
    for (auto& adapter : *slot.adapters) adapter.dropout = 0;
}

}  // namespace hone::train
