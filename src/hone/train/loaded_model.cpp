#include "hone/train/loaded_model.h"

#include <algorithm>
#include <unordered_map>

#include "hone/base/error.h"
#include "hone/base/fault_injection.h"
#include "hone/base/log.h"
#include "hone/model/decoder.h"
#include "hone/model/encoders/media_encoder.h"

namespace hone::train {
namespace {

// Heads per tensor parallel rank that context parallel ranks split. 1: none.
int64_t heads_to_exchange(const TrainingJob& job, const DistributedContext& processes, const model::CausalLM& model,
                          int64_t ranks) {
  const auto& attention = model.config().attention;
  const int64_t tp = processes.tensor ? processes.tensor->size() : 1, heads = attention.heads / tp;
  if (job.parallel.context_parallel == ContextParallel::heads_ring) return std::max<int64_t>(attention.kv_heads / tp, 1);
  if (job.parallel.context_parallel != ContextParallel::heads) return 1;
  if (heads % ranks != 0)
    throw UserError(ExitCode::usage,
                    fmt::format("{} attention heads on a rank cannot be divided among {} context parallel ranks", heads, ranks),
                    "use `cp_comm_type` a2a+p2p or p2p, or a size that divides them");
  return heads;
}

// Splits sequences over processes: attention communicates, everything else is per position.
std::unique_ptr<parallel::SequenceParallel> split_sequences(const TrainingJob& job, const DistributedContext& processes,
                                                            model::CausalLM& model) {
  const bool by_context = processes.mesh.size("cp") > 1;
  const char *axis = by_context ? "cp" : "sp", *option = by_context ? "context_parallel_size" : "sequence_parallel_size";
  if (processes.mesh.size(axis) == 1) return nullptr;
  auto refuse = [&](const std::string& what) {
    throw UserError(ExitCode::usage, fmt::format("{} is above 1 with {}", option, what), "leave one of them out");
  };
  check_splits_sequences(model.config(), option);
  if (job.neftune_alpha > 0 || job.shifted_attention) refuse("NEFTune noise or shift_attn, which need full sequences");
  if (job.sft.channel_loss || job.sft.sequence_accuracy)
    refuse("enable_channel_loss or acc_strategy seq, which need full sequences");
  const auto members = processes.mesh.group(processes.world.rank, axis);
  auto sequence = std::make_unique<parallel::SequenceParallel>(
      *processes.group, members,
      by_context ? heads_to_exchange(job, processes, model, static_cast<int64_t>(members.size()))
                 : model.config().attention.heads,
      by_context && job.parallel.context_parallel == ContextParallel::gather);
  if (processes.world.is_main()) log::info("{}", sequence->str());
  model.decoder().distributed_attention = sequence.get();
  return sequence;
}

// For a full model, all ranks of a replica share the optimizer state; for a partitioned one, the ranks with the same parts do
// (Megatron's distributed optimizer).
parallel::ShardingGroups sharding_groups(const DistributedContext& processes, const LoadedModel& loaded) {
  if (!processes.shards_optimizer) return {.shards = *processes.shards, .replicas = processes.replicas.get()};
  auto of_parameter = [&processes, tensor = loaded.tensor.get(), stages = loaded.stages.get()](const Tensor& parameter) {
    parallel::ShardingGroups::OfParameter groups;
    if (tensor && tensor->is_on_expert_mesh(parameter)) groups.shards = processes.expert_copies.get();
    if (tensor) groups.summed_over = tensor->summed_over(parameter);
    if (stages && !groups.summed_over) groups.summed_over = stages->summed_over(parameter);
    return groups;
  };
  return {.shards = *processes.data, .of_parameter = of_parameter};
}

bool has_expert_parallelism(const DistributedContext& processes, const model::CausalLM& model) {
  return model.config().experts.count > 0 && processes.expert_tensor_parallel_size > 0;
}

// Whether tensor parallel ranks split the rows between blocks.
bool splits_rows_between_blocks(const TrainingJob& job, const DistributedContext& processes, const model::CausalLM& model) {
  return processes.tensor && (job.parallel.megatron_sequence_parallel || has_expert_parallelism(processes, model));
}

// Applies pipeline parallelism, if set. Layers that are sharded as well are moved to the device afterwards.
void take_stages(const TrainingJob& job, const DistributedContext& processes, const parallel::StageLayout& layout,
                 LoadedModel& loaded) {
  auto& model = *loaded.model;
  if (processes.world.is_main()) log::info("pipeline stages of the {}: {}", loaded.name, layout.str());
  loaded.stages = parallel::apply_pipeline_parallel(
      model, layout, processes.stage_groups(), processes.is_tensor_or_expert_parallel() ? at::Device(at::kCPU) : job.load.device,
      splits_rows_between_blocks(job, processes, model) ? processes.tensor->size() : 1);
}

void take_trained_stages(const TrainingJob& job, const DistributedContext& processes, LoadedModel& loaded) {
  if (!processes.stages) return;
  auto& model = *loaded.model;
  auto request = job.parallel.pipeline;
  request.stages = processes.stages->size();
  take_stages(job, processes, parallel::StageLayout(static_cast<int64_t>(model.decoder().blocks.size()), request), loaded);
  auto trains = [&](int last) {
    return std::ranges::any_of(loaded.tuned.trainable,
                               [&](const auto& named) { return loaded.stages->stage_of(named.second) <= last; });
  };
  PipelineSchedule::Options options{.router_logits = model.config().experts.count > 0 && job.sft.router.any()};
  for (int chunk = 0; chunk < loaded.stages->layout().chunks(); ++chunk) {
    const int stage = loaded.stages->stage(chunk);
    options.trains_before.push_back(trains(stage - 1));
    options.trains_up_to.push_back(trains(stage));
  }
  loaded.schedule = std::make_unique<PipelineSchedule>(model, *loaded.stages, std::move(options));
}

// The subset of `trainable` on this process.
std::vector<std::pair<std::string, Tensor>> trained_here(const LoadedModel& loaded) {
  auto trainable = loaded.tuned.trainable;
  if (loaded.stages) std::erase_if(trainable, [&](const auto& named) { return !loaded.stages->holds(named.second); });
  // A bias that only one rank adds is known to the others.
  if (loaded.sharded) std::erase_if(trainable, [&](const auto& named) { return !loaded.sharded->holds(named.second); });
  return trainable;
}

// Applies tensor and expert parallelism, if set.
std::unique_ptr<parallel::TensorParallelModel> shard_layers(const TrainingJob& job, const DistributedContext& processes,
                                                            const char* name, model::CausalLM& model) {
  if (!processes.is_tensor_or_expert_parallel()) return nullptr;
  const bool over_experts = has_expert_parallelism(processes, model), splits_rows = job.parallel.megatron_sequence_parallel;
  const auto& layout = job.parallel.layout;
  if (processes.world.is_main() && (layout.ep > 1 || layout.etp > 1) && !over_experts)
    log::warning("{} has no experts: `expert_parallel_size` and `expert_tensor_parallel_size` have no effect",
                 model.config().architecture);
  if (processes.world.is_main() && over_experts && processes.tensor && !splits_rows)
    log::info("Megatron's sequence parallelism is on: each rank sends its own rows to the experts");
  const auto& copies = processes.data;
  const auto& expert_copies = processes.expert_copies;
  const int rank = processes.world.rank;
  return parallel::apply_tensor_parallel(
      model,
      {.world = *processes.group,
       .tensor = processes.tensor.get(),
       .experts = over_experts ? processes.experts.get() : nullptr,
       .expert_tensor_parallel_size = over_experts ? processes.expert_tensor_parallel_size : 0,
       .is_first_replica = !copies || copies->rank() == 0,
       .is_first_expert_replica = !expert_copies || expert_copies->rank() == 0,
       .replicas_share_state = processes.shards_optimizer},
      {.sequence_parallel = splits_rows || (over_experts && processes.tensor),
       .device = job.load.device,
       .name = fmt::format("tensor-{}-{}", processes.tensor ? rank - processes.tensor->rank() : rank, name),
       .expert_name =
           fmt::format("expert-{}-{}", over_experts && processes.experts ? rank - processes.experts->rank() : rank, name)});
}

// After the layout, since the keys have the towers' device; before weights are sharded. The towers are on the first stage.
void cache_towers(const TrainingJob& job, LoadedModel& loaded) {
  if (job.tower_cache && (!loaded.stages || loaded.stages->is_first()))
    model::apply_tower_cache(loaded.model->decoder(), std::make_shared<model::TowerCache>(*job.tower_cache));
}

}  // namespace

void LoadedModel::run_frozen(const std::function<void(model::CausalLM&)>& work) {
  at::NoGradGuard no_grad;
  if (sharded) sharded->begin_backward(/*last_of_update=*/true);
  work(*model);
  if (sharded) sharded->end_backward();  // nothing trains here: releases what the pass gathered
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

LoadedModel shard_model(const TrainingJob& job, const DistributedContext& processes, const char* name,
                        std::shared_ptr<model::CausalLM> model, tuner::Tuned tuned) {
  LoadedModel loaded{.name = name, .model = std::move(model), .tuned = std::move(tuned)};
  if (loaded.name == kPolicy) loaded.sequence = split_sequences(job, processes, *loaded.model);
  take_trained_stages(job, processes, loaded);
  loaded.tensor = shard_layers(job, processes, name, *loaded.model);
  cache_towers(job, loaded);
  if (processes.shards_model())
    loaded.sharded = parallel::apply_fsdp(*loaded.model, job.parallel.sharding, sharding_groups(processes, loaded),
                                          job.trainer.no_master_weights);
  if (loaded.sharded && processes.world.is_main() && !loaded.sharded->units().empty())
    log::info("gathered in {}", loaded.sharded->units());
  return loaded;
}

void split_sequences_of(LoadedModel& other, parallel::SequenceParallel& sequence, const DistributedContext& processes) {
  const auto& config = other.model->config();
  const int64_t heads = config.attention.heads / (other.tensor && processes.tensor ? processes.tensor->size() : 1);
  if (heads % sequence.head_ranks() != 0)
    throw UserError(ExitCode::usage,
                    fmt::format("{} attention heads of the {} on a rank cannot be divided among {} ranks that split sequences",
                                heads, other.name, sequence.head_ranks()),
                    "split sequences with `context_parallel_size` and `cp_comm_type` p2p, or use a size that divides them");
  if (const char* reason = reason_for_full_sequences(config))
    throw UserError(ExitCode::usage, fmt::format("sequences are split, and the {} {}", other.name, reason),
                    "leave out the splitting, or use another model");
  other.model->decoder().distributed_attention = &sequence;
}

LoadedModel freeze_model(const TrainingJob& job, const DistributedContext& processes, const char* name,
                         std::unique_ptr<model::CausalLM> model) {
  for (const auto& parameter : model->parameters()) parameter.value->requires_grad_(false);
  model->set_training(false);
  LoadedModel loaded{.name = name, .model = std::move(model)};
  if (processes.stages)
    take_stages(
        job, processes,
        parallel::StageLayout::balanced(static_cast<int64_t>(loaded.model->decoder().blocks.size()), processes.stages->size()),
        loaded);
  if (loaded.name == kReferenceModel || processes.tensor) loaded.tensor = shard_layers(job, processes, name, *loaded.model);
  if (loaded.model->config().vision || loaded.model->config().audio) cache_towers(job, loaded);
  if (processes.shards_model() && job.parallel.sharding.stage == 3)
    loaded.sharded = parallel::apply_fsdp(*loaded.model, job.parallel.sharding, sharding_groups(processes, loaded),
                                          job.trainer.no_master_weights);
  return loaded;
}

std::vector<optim::ParameterGroup> trained_groups(const TrainingJob& job, const SessionModels& models) {
  std::vector<optim::ParameterGroup> all;
  for (const auto* loaded : models.trained()) {
    auto trainable = trained_here(*loaded);
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
    for (const auto& [name, tensor] : trained_here(*loaded)) tensors.push_back(tensor);
  return tensors;
}

namespace {

// A model that trains, and its parameters here in the order of the forward pass.
struct UpdatedModel {
  const LoadedModel* loaded;
  std::vector<UpdatedParameter> parameters = {};
};

// `working` holds what the models compute with, `updated` what the optimizer changes.
std::vector<UpdatedModel> updated_parameters(const SessionModels& models, const std::vector<optim::ParameterGroup>& working,
                                             const std::vector<optim::ParameterGroup>& updated) {
  std::unordered_map<const void*, std::pair<std::string, Tensor>> targets;
  for (size_t g = 0; g < working.size(); ++g)
    for (size_t i = 0; i < working[g].parameters.size(); ++i)
      targets[working[g].parameters[i].unsafeGetTensorImpl()] = {working[g].names[i], updated[g].parameters[i]};
  std::vector<UpdatedModel> list;
  for (const auto* loaded : models.trained()) {
    auto& parameters = list.emplace_back(loaded).parameters;
    auto add = [&](const Tensor& parameter, const Tensor& computed_with) {
      const auto& [name, target] = targets.at(computed_with.unsafeGetTensorImpl());
      parameters.push_back({name, parameter, target});
    };
    for (const auto& [name, parameter] : trained_here(*loaded)) {
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
