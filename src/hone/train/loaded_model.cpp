#include "hone/train/loaded_model.h"

#include <unordered_map>

#include "hone/base/log.h"

namespace hone::train {
namespace {

// Sequences that are on several processes: attention is told, the rest works position by position.
std::unique_ptr<parallel::SequenceParallel> split_sequences(const TrainingJob& job, const DistributedContext& processes,
                                                            model::CausalLM& model) {
  if (processes.mesh.size("sp") == 1) return nullptr;
  if (model.config().vision)
    throw UserError(ExitCode::usage, "sequence_parallel_size is above 1 with a model that sees images, whose rows stay together",
                    "leave sequence_parallel_size out");
  if (job.neftune_alpha > 0 || job.shifted_attention || model.config().rope.kind == model::RopeKind::dynamic)
    throw UserError(
        ExitCode::usage,
        "sequence_parallel_size is above 1 with NEFTune noise, shift_attn or dynamic RoPE scaling, which need full sequences",
        "leave one of them out");
  if (job.sft.router_aux_loss_coef > 0 && model.config().experts.count > 0)
    throw UserError(ExitCode::usage,
                    "sequence_parallel_size is above 1 with router_aux_loss_coef, which looks at all tokens of a batch",
                    "leave one of them out");
  if (job.sft.channel_loss || job.sft.sequence_accuracy)
    throw UserError(ExitCode::usage,
                    "sequence_parallel_size is above 1 with enable_channel_loss or acc_strategy seq, which need full sequences",
                    "leave one of them out");
  auto sequence = std::make_unique<parallel::SequenceParallel>(*processes.group, processes.mesh.group(processes.world.rank, "sp"),
                                                               model.config().attention.heads);
  if (processes.world.is_main()) log::info("{}", sequence->str());
  model.set_distributed_attention(sequence.get());
  return sequence;
}

// The adapter's weights are whole on every process while this lives, also when writing them fails on one.
class GatheredAdapter {
 public:
  explicit GatheredAdapter(parallel::ShardedModel& model) : model_(model) { model_.gather_trained(); }
  ~GatheredAdapter() { model_.release_trained(); }
  GatheredAdapter(const GatheredAdapter&) = delete;

 private:
  parallel::ShardedModel& model_;
};

// Whatever trains, as it is now, and the rest where it lies: nothing changes that.
tuner::ReadWeight copies_of(const tuner::Tuned& tuned) {
  auto copies = std::make_shared<std::unordered_map<const void*, Tensor>>();
  for (const auto& [name, tensor] : tuned.trainable)
    (*copies)[tensor.unsafeGetTensorImpl()] = tensor.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
  return [copies](const Tensor& parameter) {
    auto found = copies->find(parameter.unsafeGetTensorImpl());
    return found == copies->end() ? parameter.detach() : found->second;
  };
}

}  // namespace

LoadedModel shard_model(const TrainingJob& job, const DistributedContext& processes, std::unique_ptr<model::CausalLM> model,
                        tuner::Tuned tuned) {
  std::unique_ptr<parallel::ShardedModel> sharded;
  if (processes.shards_model())
    sharded = std::make_unique<parallel::ShardedModel>(*model, job.parallel.sharding, *processes.shards, processes.replicas.get(),
                                                       job.trainer.no_master_weights);
  if (sharded && processes.world.is_main() && !sharded->units().empty()) log::info("gathered in {}", sharded->units());
  auto sequence = split_sequences(job, processes, *model);
  return {std::move(model), std::move(tuned), std::move(sharded), std::move(sequence), nullptr};
}

std::unique_ptr<ParallelStrategy> make_strategy(const TrainingJob& job, const DistributedContext& processes, LoadedModel& loaded,
                                                const std::vector<optim::ParameterGroup>& working,
                                                const std::vector<optim::ParameterGroup>& updated) {
  if (!processes.group) return std::make_unique<SingleProcess>();
  if (loaded.sharded) {
    std::vector<parallel::ShardedModel*> models{loaded.sharded.get()};
    if (loaded.value_model) models.push_back(loaded.value_model->sharded.get());
    return std::make_unique<ShardedDataParallel>(*processes.group, *processes.shards, processes.replicas.get(),
                                                 std::move(models));
  }
  std::unordered_map<const void*, Tensor> targets;
  for (size_t g = 0; g < working.size(); ++g)
    for (size_t i = 0; i < working[g].parameters.size(); ++i)
      targets[working[g].parameters[i].unsafeGetTensorImpl()] = updated[g].parameters[i];
  std::vector<parallel::GradientBuckets::Parameter> parameters;
  for (const auto* model : {&loaded, loaded.value_model.get()})
    if (model)
      for (const auto& [name, tensor] : model->tuned.trainable)
        parameters.push_back({tensor, targets.at(tensor.unsafeGetTensorImpl())});
  return std::make_unique<DataParallel>(*processes.group, std::move(parameters), job.parallel.sharding.bucket_bytes);
}

WeightFiles weight_files(const TrainingJob& job, LoadedModel& loaded, const CheckpointAssets& companions, bool main) {
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
                    [&](const fs::path& folder) { companions.write(folder); }};
  bool whole = !sharded || !parallel::GatheredParameters::is_needed(*sharded);
  if (main && whole && !loaded.tuned.adapter)
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
      parallel::GatheredParameters lender(*sharded);
      *reader = [&lender](const Tensor& parameter) { return lender(parameter); };
      write();
      *reader = {};
    } else {
      parallel::GatheredParameters::participate(*sharded);
    }
  };
  return files;
}

}  // namespace hone::train
