#include "hone/train/checkpoints/weight_files.h"

#include <c10/util/ScopeExit.h>

#include <unordered_map>

#include "hone/device/tensor_identity.h"
#include "hone/parallel/sharding/gathered_parameters.h"
#include "hone/tuner/trained_files.h"

namespace hone::train {
namespace {

// The adapter's weights are complete on every process during the lifetime of this object, even if writing fails on one.
class GatheredAdapter {
 public:
  explicit GatheredAdapter(parallel::ShardedModel& model) : model_(model) { model_.gather_trained(); }
  ~GatheredAdapter() { model_.release_trained(); }
  GatheredAdapter(const GatheredAdapter&) = delete;

 private:
  parallel::ShardedModel& model_;
};

// The same of the full parameters of a partitioned model: each process has those of its parts. A hold around this one continues.
class GatheredModel {
 public:
  explicit GatheredModel(parallel::ShardedModel& model) : model_(model), was_gathered_(model.is_kept_gathered()) {
    if (!was_gathered_) model_.keep_gathered(true);
  }
  ~GatheredModel() {
    if (!was_gathered_) model_.keep_gathered(false);
  }
  GatheredModel(const GatheredModel&) = delete;

 private:
  parallel::ShardedModel& model_;
  bool was_gathered_;
};

// Files of a partitioned model whose state, or whose parameters as well, are sharded: weights are complete once the others'
// updates have arrived, or they are gathered.
WeightFiles with_shards(WeightFiles files, const LoadedModel& loaded) {
  auto& sharded = *loaded.sharded;
  const bool adapter = loaded.tuned.adapter.has_value(), gathers = parallel::GatheredParameters::is_needed(sharded);
  const auto complete = [&sharded, adapter, gathers](const std::function<void()>& work) {
    sharded.wait_for_sync();
    std::optional<GatheredAdapter> trained;
    std::optional<GatheredModel> all;
    if (gathers && adapter)
      trained.emplace(sharded);
    else if (gathers)
      all.emplace(sharded);
    work();
  };
  files.gather = [complete, gather = files.gather](const std::function<void()>& write) { complete([&] { gather(write); }); };
  files.load = [complete, &sharded, load = files.load](const fs::path& folder) {
    complete([&] {
      load(folder);
      sharded.reload_shards();
    });
  };
  return files;
}

// Copies trained tensors and refers to the others, which do not change.
tuner::ReadWeight copies_of(const tuner::Tuned& tuned) {
  auto copies = std::make_shared<std::unordered_map<const void*, Tensor>>();
  for (const auto& [name, tensor] : tuned.trainable)
    (*copies)[device::identity_of(tensor)] = tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
  return [copies](const Tensor& parameter) {
    auto found = copies->find(device::identity_of(parameter));
    return found == copies->end() ? parameter.detach() : found->second;
  };
}

// Unsharded weights of a model, in host memory.
class WeightCopies {
 public:
  void add(const Tensor& parameter, const Tensor& whole) {
    copies_[device::identity_of(parameter)] = {parameter, whole.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true)};
  }
  const Tensor& operator()(const Tensor& parameter) const { return copies_.at(device::identity_of(parameter)).whole; }
  bool empty() const { return copies_.empty(); }
  void clear() { copies_.clear(); }

  // Runs `work` with the copies as the parameters.
  void exchange(const std::function<void()>& work) {
    std::vector<std::pair<Tensor, Tensor>> kept;
    for (auto& [key, copy] : copies_) {
      kept.emplace_back(copy.parameter, copy.parameter.detach());
      copy.parameter.set_data(copy.whole.to(copy.parameter.device()));
    }
    auto put_back = [&kept] {
      for (auto& [parameter, here] : kept) parameter.set_data(here);
    };
    try {
      work();
    } catch (...) {
      put_back();
      throw;
    }
    put_back();
  }

 private:
  struct Copy {
    Tensor parameter, whole;
  };
  std::unordered_map<const void*, Copy> copies_;
};

bool has_all_parameters(const LoadedModel& loaded) {
  return !loaded.tensor && !loaded.stages && !(loaded.sharded && parallel::GatheredParameters::is_needed(*loaded.sharded));
}

// On the first process, while `files` gather the model.
void copy_weights(const LoadedModel& loaded, const WeightFiles& files, WeightCopies& copies) {
  if (loaded.tuned.adapter) {
    for (const auto& [name, parameter] : loaded.tuned.trainable) copies.add(parameter, parameter);
    return;
  }
  if (has_all_parameters(loaded)) return;
  for (const auto& parameter : loaded.model->parameters()) copies.add(*parameter.value, files.read(*parameter.value));
}

void save_copies(const LoadedModel& loaded, const WeightFiles& files, const fs::path& folder, int64_t max_shard_bytes,
                 WeightCopies& copies) {
  if (copies.empty()) return files.save(folder);
  if (loaded.tuned.adapter) return copies.exchange([&] { files.save(folder); });  // small: the device has room for it
  const auto shapes = loaded.tensor ? std::make_unique<parallel::UnshardedShapes>(*loaded.tensor) : nullptr;
  tuner::save_trained(*loaded.model, loaded.tuned, folder, max_shard_bytes, std::cref(copies));
}

}  // namespace

WeightFiles weight_files(const TrainingJob& job, const DistributedContext& processes, LoadedModel& loaded,
                         const CheckpointAssets& assets) {
  const bool main = processes.world.is_main();
  if (loaded.stages || loaded.tensor) {
    auto files = loaded.stages
                     ? pipeline_files(*loaded.model, loaded.tuned, *loaded.stages, loaded.tensor.get(), *processes.group,
                                      processes.mesh.group(0, "pp"), assets, job.max_shard_bytes)
                     : tensor_parallel_files(*loaded.model, loaded.tuned, *loaded.tensor, assets, job.max_shard_bytes, main);
    return loaded.sharded ? with_shards(std::move(files), loaded) : files;
  }
  auto reader = std::make_shared<tuner::ReadWeight>();
  auto* sharded = loaded.sharded.get();
  WeightFiles files{[&, reader](const fs::path& folder) {
                      tuner::save_trained(*loaded.model, loaded.tuned, folder, job.max_shard_bytes, *reader);
                    },
                    [&, sharded](const fs::path& folder) {
                      tuner::load_trained(
                          *loaded.model, loaded.tuned, folder,
                          sharded ? [=](const Tensor& parameter, const Tensor& values) { sharded->fill(parameter, values); }
                                  : tuner::CopyWeight());
                    },
                    [&](const fs::path& folder) { assets.write(folder); }};
  files.read = [reader](const Tensor& parameter) { return *reader ? (*reader)(parameter) : parameter.detach(); };
  if (main && has_all_parameters(loaded) && !loaded.tuned.adapter)
    files.copy = [&, sharded]() -> std::function<void(const fs::path&)> {
      if (sharded) sharded->wait_for_sync();
      return [&, read = copies_of(loaded.tuned)](const fs::path& folder) {
        tuner::save_trained(*loaded.model, loaded.tuned, folder, job.max_shard_bytes, read);
      };
    };
  if (!sharded) return files;
  files.gather = [&, sharded, reader, main](const std::function<void()>& write) {
    sharded->wait_for_sync();
    if (loaded.tuned.adapter) {
      GatheredAdapter gathered(*sharded);
      if (main) write();
    } else if (!parallel::GatheredParameters::is_needed(*sharded)) {
      if (main) write();
    } else if (main) {
      parallel::GatheredParameters gathered(*sharded);
      *reader = [&gathered](const Tensor& parameter) { return gathered(parameter); };
      write();
      *reader = {};
    } else {
      parallel::GatheredParameters(*sharded).follow();
    }
  };
  return files;
}

// Weights in parts are brought together one model at a time: the second's wait on the first process while the policy's are
// written.
WeightFiles with_second_model(const TrainingJob& job, WeightFiles policy, WeightFiles second_files, LoadedModel& second) {
  auto copies = std::make_shared<WeightCopies>();
  WeightFiles both;
  both.save = [policy, second_files, copies, &job, &second](const fs::path& folder) {
    policy.save(folder);
    fs::create_directories(folder / second.name);
    save_copies(second, second_files, folder / second.name, job.max_shard_bytes, *copies);
  };
  both.load = [policy, second_files, &second](const fs::path& folder) {
    policy.load(folder);
    if (!fs::is_directory(folder / second.name))
      throw UserError(ExitCode::bad_checkpoint, fmt::format("{} holds no {}", folder.string(), second.name),
                      "continue a run that trained such a model with the policy, or begin a new one with `adapters` or `model`");
    second_files.load(folder / second.name);
  };
  both.save_assets = [policy, second_files, &second](const fs::path& folder) {
    policy.save_assets(folder);
    fs::create_directories(folder / second.name);
    second_files.save_assets(folder / second.name);
  };
  if (policy.copy && second_files.copy)
    both.copy = [policy, second_files, &second]() -> std::function<void(const fs::path&)> {
      return [write_policy = policy.copy(), write_second = second_files.copy(), name = second.name](const fs::path& folder) {
        write_policy(folder);
        fs::create_directories(folder / name);
        write_second(folder / name);
      };
    };
  if (!policy.gather) return both;
  both.gather = [policy, second_files, copies, &second](const std::function<void()>& write) {
    const auto clear = c10::make_scope_exit([&] { copies->clear(); });  // also if gathering fails
    second_files.gather([&] { copy_weights(second, second_files, *copies); });
    policy.gather(write);
  };
  return both;
}

}  // namespace hone::train
