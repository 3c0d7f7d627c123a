#include "hone/train/distributed/parallelize_model.h"

#include <algorithm>

#include "hone/base/error.h"
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
  if (job.sft.channel_loss || job.sft.sequence_accuracy || job.sft.eval_accuracy)
    refuse("enable_channel_loss, acc_strategy seq or compute_accuracy, which need full sequences");
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

LoadedModel parallelize_model(const TrainingJob& job, const DistributedContext& processes, const char* name,
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

}  // namespace hone::train
