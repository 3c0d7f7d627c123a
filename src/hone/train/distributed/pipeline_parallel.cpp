#include "hone/train/distributed/pipeline_parallel.h"

#include "hone/base/error.h"
#include "hone/tuner/trained_files.h"

#include <algorithm>

namespace hone::train {
namespace {

// Full parameters on the first process, whichever stage has their blocks.
class StageReader {
 public:
  StageReader(parallel::PipelineModel& stages, parallel::TensorParallelModel* tensor, bool sends)
      : stages_(stages), tensor_(tensor), sends_(sends) {}

  // Collective; the first process receives the values, in host memory.
  Tensor operator()(const Tensor& parameter) const {
    at::NoGradGuard no_grad;
    Tensor values;
    if (stages_.owns(parameter)) values = tensor_ ? tensor_->gathered(parameter) : parameter.detach();
    if (!sends_) return {};
    const auto* shard = tensor_ ? tensor_->shard_of(parameter) : nullptr;
    return stages_.brought_to_first(parameter, values, shard ? at::IntArrayRef(shard->full_shape) : parameter.sizes());
  }

 private:
  parallel::PipelineModel& stages_;
  parallel::TensorParallelModel* tensor_;
  bool sends_;
};

// An adapter is small: the first process has all of it during the lifetime of this object.
class GatheredAdapterOnMain {
 public:
  GatheredAdapterOnMain(const tuner::Tuned& tuned, const StageReader& read, bool first) {
    for (const auto& [name, parameter] : tuned.trainable) {
      auto values = read(parameter);
      if (!first) continue;
      kept_.emplace_back(parameter, parameter.detach());
      kept_.back().first.set_data(values.to(parameter.device()));
    }
  }
  ~GatheredAdapterOnMain() {
    for (auto& [parameter, here] : kept_) parameter.set_data(here);
  }
  GatheredAdapterOnMain(const GatheredAdapterOnMain&) = delete;

 private:
  std::vector<std::pair<Tensor, Tensor>> kept_;
};

}  // namespace

PipelineParallel::PipelineParallel(parallel::ProcessGroup& processes, std::unique_ptr<ParallelStrategy> copies,
                                   std::unique_ptr<ParallelStrategy> losses, std::vector<Trained> models)
    : MultiProcess(processes), copies_(std::move(copies)), losses_(std::move(losses)), models_(std::move(models)) {
  for (const auto& trained : models_)
    for (const auto& [name, parameter, updated] : trained.parameters)
      if (!trained.stages.owns(parameter)) others_.insert(name);
  if (!policy().stages.is_first()) others_.insert("step");  // the count of steps, which every stage has
}

void PipelineParallel::finish_gradients() {
  copies_->finish_gradients();
  for (const auto& trained : models_)
    for (const auto& [name, parameter, updated] : trained.parameters) trained.stages.sum_shared(parameter, updated);
}

Tensor PipelineParallel::squared_norm(const Trained& trained) {
  at::NoGradGuard no_grad;
  std::vector<parallel::TensorParallelModel::Gradient> own;
  for (const auto& [name, parameter, updated] : trained.parameters)
    if (trained.stages.owns(parameter)) own.push_back({parameter, updated.grad()});
  if (trained.tensor) return trained.tensor->squared_norm(own);
  auto total = at::zeros({}, at::TensorOptions(at::kFloat).device(trained.schedule.device()));
  for (const auto& [parameter, gradient] : own)
    if (gradient.defined() && copies_->owns_state()) total += gradient.to(at::kFloat).square().sum().to(total.device());
  all_reduce(total);
  return total;
}

Tensor PipelineParallel::clip_grad_norm(optim::Optimizer& optimizer, double max_norm) {
  return optimizer.clip_grad_norm(max_norm, [this](Tensor& squared) {
    squared = squared_norm(models_.front());
    for (size_t i = 1; i < models_.size(); ++i) squared += squared_norm(models_[i]);
  });
}

// "exp_avg/name", or the name of a master weight.
bool PipelineParallel::owns_state_of(const std::string& name) const {
  const auto slash = name.find('/');
  return copies_->owns_state_of(name) && !others_.contains(slash == std::string::npos ? name : name.substr(slash + 1));
}

WeightFiles pipeline_files(model::CausalLM& model, const tuner::Tuned& tuned, parallel::PipelineModel& stages,
                           parallel::TensorParallelModel* tensor, parallel::ProcessGroup& processes,
                           const std::vector<int>& senders, const CheckpointAssets& assets, size_t max_shard_bytes) {
  auto reader = std::make_shared<tuner::ReadWeight>();
  auto unsharded_shapes = [tensor] { return tensor ? std::make_unique<parallel::UnshardedShapes>(*tensor) : nullptr; };
  WeightFiles files;
  files.save = [&model, &tuned, max_shard_bytes, reader](const fs::path& folder) {
    tuner::save_trained(model, tuned, folder, max_shard_bytes, *reader);
  };
  files.load = [&, tensor, unsharded_shapes](const fs::path& folder) {
    const auto shapes = unsharded_shapes();
    tuner::load_trained(model, tuned, folder, [&](Tensor parameter, const Tensor& values) {
      at::NoGradGuard no_grad;
      if (!stages.holds(parameter)) return;
      if (tensor)
        tensor->fill(parameter, values);
      else
        parameter.copy_(values);
    });
  };
  files.save_assets = [&assets](const fs::path& folder) { assets.write(folder); };
  files.read = [reader](const Tensor& parameter) { return (*reader)(parameter); };
  const bool main = processes.rank() == 0, sends = std::ranges::count(senders, processes.rank()) > 0;
  files.gather = [&, tensor, main, sends, reader, unsharded_shapes](const std::function<void()>& write) {
    const auto shapes = unsharded_shapes();
    const StageReader read(stages, tensor, sends);
    if (tuned.adapter) {
      GatheredAdapterOnMain brought(tuned, read, main);
      if (main) write();
      return;
    }
    const auto parameters = model.parameters();
    const parallel::GatherRequests requests(processes,
                                            [&](int64_t number) { return read(*parameters[static_cast<size_t>(number)].value); });
    if (!main) return requests.follow();
    *reader = [&](const Tensor& parameter) {
      const auto found = std::ranges::find_if(parameters, [&](const auto& known) { return known.value->is_same(parameter); });
      HONE_CHECK(found != parameters.end(), "the tensor is no parameter of the model");
      return requests(found - parameters.begin());
    };
    write();
    *reader = {};
  };
  return files;
}

}  // namespace hone::train
