#include "hone/train/distributed/distributed_context.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "hone/base/log.h"
#include "hone/model/tensor_parallel/partition.h"

namespace hone::train {
namespace {

// Experts have a separate mesh unless they are sharded like the other layers.
bool has_expert_parallelism(const parallel::DeviceMesh::Request& layout) {
  return layout.ep > 1 || (layout.etp > 0 && layout.etp != layout.tp);
}

// Whether ranks hold parts of a model, not only of its sequences or its state.
bool has_parts(const parallel::DeviceMesh::Request& layout) {
  return layout.tp > 1 || layout.pp > 1 || has_expert_parallelism(layout);
}

void check_model_parallel(const ParallelConfig& config) {
  const auto& layout = config.layout;
  const auto& sharding = config.sharding;
  if (config.sequence_parallel > 1 && layout.cp > 1)
    throw UserError(ExitCode::usage, "`sequence_parallel_size` and `context_parallel_size` are both above 1",
                    "leave one of them out: both split sequences");
  if (config.pipeline.is_interleaved() && layout.pp == 1)
    throw UserError(ExitCode::usage, "virtual pipeline stages without a pipeline", "set `pipeline_parallel_size`");
  if (!has_parts(layout)) return;
  const char* name = layout.tp > 1 ? "tensor_parallel_size" : layout.pp > 1 ? "pipeline_parallel_size" : "expert_parallel_size";
  if (sharding.stage > 0 && sharding.shard_size > 0)
    throw UserError(ExitCode::usage,
                    fmt::format("`{}` is above 1 with state that is sharded over {} ranks", name, sharding.shard_size),
                    "leave out `zero_hpz_partition_size` and dp_shard_size: all data parallel ranks share the optimizer's state");
  if (config.sequence_parallel > 1 && (layout.tp > 1 || layout.pp > 1))
    throw UserError(ExitCode::usage, fmt::format("`{}` and `sequence_parallel_size` are both above 1", name),
                    "split sequences with `context_parallel_size`");
}

parallel::DeviceMesh make_mesh(const ParallelConfig& config, const parallel::World& world, at::Device device) {
  check_model_parallel(config);
  auto request = config.layout;
  request.device_type = c10::DeviceTypeName(device.type(), /*lower_case=*/true);
  request.sp = config.sequence_parallel;
  request.ranks_per_node = world.local_size;
  int copies = std::max(world.size / (request.sp * request.cp), 1);
  if (config.sharding.stage > 0 && !has_parts(config.layout))
    request.fsdp = config.sharding.shard_size > 0 ? config.sharding.shard_size : copies;
  return parallel::DeviceMesh::make(request, world.size);
}

}  // namespace

const char* reason_for_full_sequences(const model::DecoderConfig& model) {
  if (model.vision && model.vision->bidirectional_images) return "lets the rows of an image see each other, which stay together";
  if (model.linear_attention) return "has layers of linear attention (gated delta nets), whose states follow the whole sequence";
  return model.rope.kind == model::RopeKind::dynamic ? "has dynamic RoPE scaling" : nullptr;
}

void check_splits_sequences(const model::DecoderConfig& model, const char* option) {
  if (const char* reason = reason_for_full_sequences(model))
    throw UserError(ExitCode::usage, fmt::format("{} is above 1 with a model that {}", option, reason),
                    fmt::format("set {} to 1", option));
}

void check_layout(const ParallelConfig& config, const model::DecoderConfig& model, const parallel::World& world) {
  const auto& layout = config.layout;
  make_mesh(config, world, at::kCPU);
  const bool on_expert_mesh = has_expert_parallelism(layout);
  if (on_expert_mesh) {
    const auto grid = parallel::DeviceMesh::make_for_experts(layout, world.size);
    if (model.experts.count > 0) model::check_expert_partition(model, grid.size("ep"), grid.size("etp"));
  }
  if (layout.cp > 1) check_splits_sequences(model, "context_parallel_size");
  if (config.sequence_parallel > 1) check_splits_sequences(model, "sequence_parallel_size");
  if (layout.tp > 1) model::check_partition(model, layout.tp, !on_expert_mesh);
  auto stages = config.pipeline;
  stages.stages = layout.pp;
  if (layout.pp > 1) parallel::StageLayout(model.layers, stages);
}

namespace {

// A single process has no peers but may still need offload, or be set to act as one of several.
bool shards_alone(const parallel::ShardingConfig& sharding, const parallel::World& world, at::Device device) {
  bool offloads = (sharding.offload_optimizer || sharding.offload_parameters) && !device.is_cpu();
  return sharding.stage > 0 && (offloads || world.launched);
}

// Groups of ranks that hold parts of one model. Every rank creates its groups in the same order.
void join_model_parallel(DistributedContext& processes, const ParallelConfig& config, at::Device device) {
  const auto& layout = config.layout;
  const bool sharded = config.sharding.stage > 0;
  if (!has_parts(layout)) return;
  const auto& mesh = processes.mesh;
  const int rank = processes.world.rank;
  const bool expert_parallel = has_expert_parallelism(layout);
  processes.shards_optimizer = sharded;
  processes.tensor = processes.group_along("tensor", mesh.group(rank, "tp"));
  processes.data = processes.group_along("data", mesh.group(rank, {"dp", "cp", "sp"}), sharded);
  if (expert_parallel) {
    auto request = layout;
    request.device_type = c10::DeviceTypeName(device.type(), /*lower_case=*/true);
    const auto grid = parallel::DeviceMesh::make_for_experts(request, processes.world.size);
    processes.experts = processes.group_along("experts", grid.group(rank, {"ep", "etp"}));
    processes.expert_copies = processes.group_along("expert-copies", grid.group(rank, "edp"), sharded);
    processes.expert_tensor_parallel_size = grid.size("etp");
    if (processes.world.is_main()) log::info("experts: {}", grid.str());
  }
  const auto stages = mesh.group(rank, "pp");
  processes.stages = processes.group_along("stages", stages);
  if (!processes.stages) return;
  processes.stage_gradients = processes.group_along("stage-gradients", stages);
  if (config.pipeline.is_interleaved()) {
    processes.stages_around = processes.group_along("stages-around", stages);
    processes.stage_gradients_around = processes.group_along("stage-gradients-around", stages);
  }
  if (rank == stages.front() || rank == stages.back())
    processes.ends = processes.group_along("ends", {stages.front(), stages.back()});
  if (rank == stages.back())
    processes.last_stages = processes.group_along("last-stages", mesh.group(rank, {"dp", "cp", "sp", "tp"}));
}

// Settings about a process's own rank may differ.
Json comparable(Json settings) {
  for (const char* own : {"local_rank", "rank", "device", "devices"}) settings.erase(own);
  return settings;
}

}  // namespace

DistributedContext DistributedContext::join(const ParallelConfig& config, const Json& settings, at::Device device) {
  const auto& world = config.world;
  DistributedContext processes{.world = world, .mesh = make_mesh(config, world, device)};
  if (!world.distributed() && !shards_alone(config.sharding, world, device)) {
    if (config.sharding.stage > 0) log::info("one process: there is nothing to shard; start more with NPROC_PER_NODE");
    return processes;
  }
  auto waiting = config.process_group;
  waiting.device = device;
  processes.group = parallel::ProcessGroup::join(world, waiting);
  processes.group->require_equal("settings", comparable(settings));
  if (world.is_main()) log::info("{}; {}", processes.mesh.str(), config.sharding.str());
  if (config.async_save) {
    std::vector<int> everyone(static_cast<size_t>(world.size));
    std::iota(everyone.begin(), everyone.end(), 0);
    processes.checkpoint_group = processes.group->subgroup("savers", everyone);
  }
  processes.several_folders = config.folder_on_each_node && world.size > world.local_size;
  if (processes.several_folders) {
    auto local_ranks = processes.group->gather_text(std::to_string(world.local_rank));
    std::vector<int> firsts;
    for (int rank = 0; rank < world.size; ++rank)
      if (local_ranks[static_cast<size_t>(rank)] == "0") firsts.push_back(rank);
    if (world.local_rank == 0) processes.leaders = processes.group->subgroup("leaders", firsts);
  }
  processes.same_rows = processes.group_along("same-rows", processes.mesh.group(world.rank, {"pp", "cp", "sp", "tp"}));
  join_model_parallel(processes, config, device);
  if (config.sharding.stage == 0 || processes.shards_optimizer) return processes;
  int copy = processes.mesh.coordinate(world.rank, "dp"), of_copy = processes.mesh.size() / processes.mesh.size("dp");
  std::vector<int> members;
  for (int i = 0; i < of_copy; ++i) members.push_back(copy * of_copy + i);
  processes.shards = processes.group->subgroup(fmt::format("copy-{}", copy), members);
  if (processes.mesh.size("dp") > 1) {
    auto same = processes.mesh.group(world.rank, "dp");
    processes.replicas = processes.group->subgroup(fmt::format("replicas-{}", same.front()), same);
  }
  return processes;
}

std::unique_ptr<parallel::ProcessGroup> DistributedContext::group_along(const char* name, const std::vector<int>& ranks,
                                                                        bool of_one_too) const {
  return ranks.size() > 1 || of_one_too ? group->subgroup(fmt::format("{}-{}", name, ranks.front()), ranks) : nullptr;
}

std::string DistributedContext::broadcast_text(const std::string& text) const {
  return group ? group->gather_text(world.is_main() ? text : "").front() : text;
}

bool DistributedContext::folder_per_node(const fs::path& folder) const {
  if (!group) return false;
  // A folder of that name may exist on every node; a newly created file exists only once.
  const auto probe = folder / broadcast_text(fmt::format(".seen-by-all-{}", ::getpid()));
  if (world.is_main()) write_file_atomically(probe, "");
  group->barrier();
  auto seen = group->gather_text(fs::exists(probe) ? "yes" : "");
  std::error_code ignored;
  if (world.is_main()) fs::remove(probe, ignored);
  auto blind = std::ranges::find(seen, "");
  if (blind == seen.end()) {
    if (several_folders && world.is_main()) log::info("all nodes see {}: checkpoints are written there once", folder.string());
    return false;
  }
  if (!several_folders)
    throw UserError(
        ExitCode::usage,
        fmt::format("rank {} does not see {}, where rank 0 writes checkpoints", blind - seen.begin(), folder.string()),
        "name an `output_dir` on a file system that all nodes share, or add `save_on_each_node` true");
  if (leaders) fs::create_directories(folder);
  return true;
}

}  // namespace hone::train
